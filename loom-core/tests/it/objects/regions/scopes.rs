//! Scopes of borrowed memory close its remaining regions. They end the process if peers can still
//! reach the memory, so that test runs itself in another process.

use std::process::Command;

use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::mr::Mr;
use loom_core::scope;

use super::world::World;
use super::{PEER_ACCESS, no_endpoint_is_opened_while_this_closes, queue, vector};

/// Set in processes in which a test performs its action.
const DOES_IT: &str = "LOOM_TEST_SCOPE";

/// Runs the test of this name in another process. Returns its success and its output.
pub(crate) fn in_another_process(name: &str) -> (bool, String) {
    let mut this = Command::new(std::env::current_exe().unwrap());
    let output = this.args(["--exact", name, "--nocapture"]).env(DOES_IT, "1").output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub(crate) fn does_it() -> bool {
    std::env::var_os(DOES_IT).is_some()
}

/// The end of a scope looks for endpoints before it closes the region. The provider does not
/// survive the close of a region under an endpoint.
#[test]
fn a_scope_under_an_open_endpoint_ends_the_process_with_its_region_open() {
    if does_it() {
        let world = World::strict();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&world.info()).unwrap();
            let _region = Mr::open(&domain, &mut memory[..], PEER_ACCESS).unwrap();
            let (av, cq) = (vector(&domain), queue(&domain));
            let _endpoint = cq.endpoint(&av).unwrap();
            world.leave_endpoints();
        });
        return;
    }
    let (success, said) = in_another_process(
        "objects::regions::scopes::a_scope_under_an_open_endpoint_ends_the_process_with_its_region_open",
    );
    assert!(!success && said.contains("endpoints are open at the end of a scope"), "{said}");
    assert!(!said.contains("wrong:"), "{said}");
}

#[test]
fn a_scope_closes_forgotten_endpoints_with_their_queues_before_regions() {
    let world = World::strict();
    let mut memory = [0; 8];
    scope(|s| {
        let domain = s.open(&world.info()).unwrap();
        let (av, cq) = (vector(&domain), queue(&domain));
        core::mem::forget(cq.endpoint(&av).unwrap());
        // Kept because an endpoint is open, and then forgotten.
        drop(Mr::open(&domain, &mut memory[..4], PEER_ACCESS).unwrap());
        core::mem::forget(Mr::open(&domain, vec![0; 8], PEER_ACCESS).unwrap());
        assert_eq!((world.endpoints(), world.open_regions()), (1, 2));
    });
    assert_eq!((world.wrongs(), world.endpoints(), world.open_regions()), (vec![], 0, 0));
}

/// Endpoints of a kept domain are open at the end of the scope.
#[test]
fn borrowed_memory_is_not_exposed_by_way_of_a_domain_that_is_kept() {
    let world = World::strict();
    let kept = Domain::open(&world.info()).unwrap();
    let mut memory = [0; 8];
    let refused = scope(|s| Mr::open(&s.domain(&kept), &mut memory[..], PEER_ACCESS).map(drop));
    assert_eq!((refused, world.closings()), (Err(OpenError::NoFence), 0));
}

/// Meanwhile another thread opens an endpoint, too late to reach the region.
#[test]
fn an_endpoint_that_is_opened_after_the_region_was_closed_does_no_harm() {
    let world = World::strict();
    let mut memory = [0; 8];
    scope(|s| {
        let domain = s.open(&world.info()).unwrap();
        let av = vector(&domain);
        let region = Mr::open(&domain, &mut memory[..], PEER_ACCESS).unwrap();
        no_endpoint_is_opened_while_this_closes(world, &domain, &av, || drop(region));
    });
    assert_eq!((world.wrongs(), world.open_regions(), world.endpoints()), (vec![], 0, 0));
}
