//! Memory regions: keys, and the values for peers.

use loom_core::buffer::bytes_mut;
use loom_core::cq::Cq;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::mr::{Mr, MrAttr};
use loom_core::registered::Registered;
use loom_core::vocabulary::{Access, MemoryKey, MrMode};

use super::{Scene, attributes};

fn scene(mr_mode: MrMode) -> Scene {
    let mut attributes = attributes();
    attributes.domain.mr_mode = mr_mode;
    attributes.domain.mr_key_size = 1;
    Scene::new(attributes).with_regions(8)
}

const MODES: [(MrMode, bool, bool); 5] = [
    // Flags: the provider chooses the key, and peers address memory by its address.
    (MrMode::empty(), false, false),
    (MrMode::PROV_KEY, true, false),
    (MrMode::BASIC, true, true),
    (MrMode::VIRT_ADDR, false, true),
    (MrMode::VIRT_ADDR.union(MrMode::PROV_KEY), true, true),
];

#[test]
fn a_provider_that_chooses_keys_gets_no_key_request() {
    for (mode, chosen, _) in MODES {
        let scene = scene(mode);
        let regions = [(); 3].map(|()| Mr::open(&scene.domain, vec![0; 8], Access::REMOTE_READ).unwrap());
        let keys = scene.script.regions.lock().unwrap().keys.clone();
        let expected = if chosen { [0; 3] } else { [1, 2, 3] };
        assert_eq!(keys, expected.map(MemoryKey), "{mode}");
        drop(regions);
    }
}

#[test]
fn peers_get_the_address_of_memory_if_they_access_it_by_address() {
    for (mode, _, by_address) in MODES {
        let scene = scene(mode);
        let memory = vec![0_u8; 8];
        let address = memory.as_ptr().addr() as u64;
        let region = Mr::open(&scene.domain, memory, Access::REMOTE_READ).unwrap();
        assert_eq!(region.remote().base.0, if by_address { address } else { 0 }, "{mode}");
        assert_eq!(region.remote().len, 8);
    }
}

#[test]
fn a_key_is_requested_if_it_fits_and_the_application_chooses() {
    for (mode, chosen, _) in MODES {
        let scene = scene(mode);
        let open = |key| {
            let attr = MrAttr::new(Access::REMOTE_READ).key(MemoryKey(key));
            Mr::open(&scene.domain, vec![0; 8], attr).map(drop)
        };
        let refused = Err(OpenError::KeyNotAvailable);
        // The script gives each region this key.
        assert_eq!(open(0), if chosen { refused } else { Ok(()) }, "{mode}");
        assert_eq!(open(256), refused, "{mode}");
        let asked = scene.script.regions.lock().unwrap().keys.len();
        assert_eq!(asked, usize::from(!chosen), "{mode}");
    }
}

#[test]
fn a_registered_buffer_shows_its_bytes() {
    let scene = scene(MrMode::LOCAL);
    let mut buffer = Registered::new(&scene.domain, vec![1_u8, 2, 3]).unwrap();
    bytes_mut(&mut buffer).unwrap()[1] = 7;
    assert_eq!(buffer.into_inner(), [1, 7, 3]);
    let mut shown = Registered::new(&scene.domain, &b"constant"[..]).unwrap();
    assert!(bytes_mut(&mut shown).is_none());
}

#[test]
fn a_buffer_is_posted_in_the_domain_that_it_is_registered_with() {
    let [scene, other] = [(); 2].map(|()| scene(MrMode::LOCAL));
    let queue = Cq::<_, Registered<'_, _, Vec<u8>>>::open(&scene.domain, 4).unwrap();
    let endpoint = queue.endpoint(&scene.vector()).unwrap();
    let recv = |scene: &Scene| {
        let buffer = Registered::new(&scene.domain, vec![0; 8]).unwrap();
        endpoint.recv(Source::Any, buffer).map(drop).map_err(|refused| refused.error)
    };
    assert_eq!([recv(&scene), recv(&other)], [Ok(()), Err(PostError::ForeignDescriptor)]);
}

#[test]
fn memory_that_may_not_be_written_is_exposed_to_readers_alone() {
    let scene = scene(MrMode::empty());
    let open = |access| Mr::open(&scene.domain, &b"constant"[..], access).map(drop);
    assert_eq!(open(Access::REMOTE_READ), Ok(()));
    for written in [Access::REMOTE_WRITE, Access::REMOTE_READ | Access::REMOTE_WRITE, Access::RECV, Access::READ] {
        assert_eq!(open(written), Err(OpenError::Access), "{written}");
    }
}
