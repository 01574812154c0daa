//! Texts and sources of errors.

use loom_core::Error;
use loom_core::error::{CqError, OpenError, PostError, Rejected};
use loom_core::vocabulary::{AddressError, EndpointType, Errno};

fn passes_on(result: Result<(), Rejected<[u8; 3]>>) -> Result<(), Error> {
    Ok(result?)
}

#[test]
fn text_contains_failure_cause_and_remedy() {
    let refused = passes_on(Err(Rejected { value: [0; 3], error: PostError::UnknownPeer }));
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "not posted: the peer is not in the endpoint's address vector (insert its address into the vector that the \
         endpoint was opened with)"
    );
    assert_eq!(
        format!("{:#}", Error::from(OpenError::Errno(Errno::ENOSYS))),
        "not opened: the transport refused: ".to_string() + &Errno::ENOSYS.to_string()
    );
}

#[test]
fn sources_continue_behind_the_text() {
    let errors = [
        OpenError::Errno(Errno::ENOSYS).into(),
        PostError::Errno(Errno::ENOSYS).into(),
        CqError::EventQueue(Errno::ENOSYS).into(),
        AddressError::Errno(Errno::ENOSYS).into(),
        OpenError::Unconnected(Errno::ENOSYS).into(),
        Error::Provider(Errno::ENOSYS),
        Error::System { call: "mmap", errno: Errno::ENOSYS },
    ];
    for error in errors {
        let source = std::error::Error::source(&error).expect("it has a source").to_string();
        assert_eq!(source, Errno::ENOSYS.to_string());
        assert_eq!(format!("{error:#}"), format!("{error}: {source}"));
    }
    let error = Error::from(OpenError::Events(CqError::EventQueue(Errno::EIO)));
    let text = "not connected: the events of the connection cannot be read: the event queue failed";
    assert_eq!(format!("{error:#}"), format!("{text}: {}", Errno::EIO));
}

#[test]
fn text_names_the_ways_to_open_a_connected_endpoint() {
    let text = Error::from(OpenError::EndpointType(EndpointType::MSG)).to_string();
    assert!(["EP_MSG", "`MsgEndpoint`", "`tcp;ofi_rxm`", "`net`"].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn the_limit_of_a_network_is_named() -> Result<(), Error> {
    use loom_core::soft::{Network, NetworkAttr};
    use loom_core::{Access, Av, Cq, Domain, Mr};

    let network = Network::new(NetworkAttr { regions: 1, ..NetworkAttr::DEFAULT })?;
    let domain = Domain::open(&network.info())?;
    let (av, cq) = (Av::open(&domain, 16)?, Cq::<_, Vec<u8>>::open(&domain, 64)?);
    let open = || cq.endpoint(&av);
    let _open = [open()?, open()?, open()?, open()?, open()?, open()?, open()?, open()?];
    let region = || Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE);
    let _region = region()?;
    for (refused, limit) in [(open().err(), "endpoints"), (region().err(), "regions")] {
        let text = refused.map(Error::from).expect("as many are open").to_string();
        assert!(text.contains(limit) && text.contains("NetworkAttr::") && !text.contains("provider"), "{text}");
    }
    let empty = Network::new(NetworkAttr { rx_depth: 0, ..NetworkAttr::DEFAULT }).map(drop);
    assert_eq!(empty, Err(OpenError::OutOfRange("NetworkAttr::rx_depth")));
    Ok(())
}
