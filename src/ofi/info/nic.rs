#![allow(unsafe_code, reason = "follows pointers in an `fi_info`")]

use loom_core::info::{Nic, NicBus, NicDevice, NicLink};
use loom_core::vocabulary::{BusType, LinkState};

use super::RawInfo;
use crate::ofi::ffi::text;
use crate::ofi::sys;

pub(crate) fn nic(info: &RawInfo) -> Option<Nic<'_>> {
    // SAFETY: null, or owned by the borrowed info.
    let nic = unsafe { info.fields().nic.as_ref() }?;
    // SAFETY: the parts of a card and their texts are null or belong to it.
    Some(unsafe { read(nic) })
}

/// # Safety
/// All pointers are null, or valid and not written during the structure's lifetime.
unsafe fn read(nic: &sys::fid_nic) -> Nic<'_> {
    let string = |pointer: *mut core::ffi::c_char| {
        // SAFETY: the caller guarantees null or a valid pointer.
        unsafe { text::read(pointer) }
    };
    // SAFETY: the caller guarantees null or a valid pointer.
    let device = unsafe { nic.device_attr.as_ref() }.map(|raw| NicDevice {
        name: string(raw.name),
        device_id: string(raw.device_id),
        device_version: string(raw.device_version),
        vendor_id: string(raw.vendor_id),
        driver: string(raw.driver),
        firmware: string(raw.firmware),
    });
    // SAFETY: the caller guarantees null or a valid pointer.
    let bus = unsafe { nic.bus_attr.as_ref() }.map(|raw| {
        let kind = BusType::from_raw(raw.bus_type);
        let pci = (kind == BusType::PCI).then(|| {
            // SAFETY: the kind selects this member of the union, which is plain numbers.
            let pci = unsafe { raw.attr.pci };
            (pci.domain_id, pci.bus_id, pci.device_id, pci.function_id)
        });
        NicBus { kind, pci }
    });
    // SAFETY: the caller guarantees null or a valid pointer.
    let link = unsafe { nic.link_attr.as_ref() }.map(|raw| NicLink {
        address: string(raw.address),
        mtu: raw.mtu,
        speed: raw.speed,
        state: LinkState::from_raw(raw.state),
        network_type: string(raw.network_type),
    });
    Nic { device: device.unwrap_or_default(), bus: bus.unwrap_or_default(), link: link.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn a_card_is_read_as_its_provider_describes_it() {
        let mut device = sys::fi_device_attr {
            name: c"mlx5_0".as_ptr().cast_mut(),
            driver: c"mlx5_core".as_ptr().cast_mut(),
            ..Default::default()
        };
        let mut bus = sys::fi_bus_attr { bus_type: sys::FI_BUS_PCI, ..Default::default() };
        bus.attr.pci = sys::fi_pci_attr { domain_id: 1, bus_id: 0x3b, device_id: 2, function_id: 3 };
        let mut link = sys::fi_link_attr {
            mtu: 4096,
            speed: 200_000_000_000,
            state: sys::FI_LINK_UP,
            network_type: c"InfiniBand".as_ptr().cast_mut(),
            ..Default::default()
        };
        let raw = sys::fid_nic {
            device_attr: &raw mut device,
            bus_attr: &raw mut bus,
            link_attr: &raw mut link,
            ..Default::default()
        };
        // SAFETY: all pointers are valid.
        let nic = unsafe { read(&raw) };
        assert_eq!(
            (nic.device.name, nic.device.driver, nic.device.firmware),
            (Some("mlx5_0"), Some("mlx5_core"), None)
        );
        assert_eq!((nic.bus.kind, nic.bus.pci), (BusType::PCI, Some((1, 0x3b, 2, 3))));
        assert_eq!((nic.link.mtu, nic.link.speed), (4096, 200_000_000_000));
        assert_eq!((nic.link.state, nic.link.network_type), (LinkState::UP, Some("InfiniBand")));
    }

    #[test]
    fn card_without_attributes_is_empty() {
        let mut bus = sys::fi_bus_attr { bus_type: 7, ..Default::default() };
        let raw = sys::fid_nic { bus_attr: &raw mut bus, device_attr: ptr::null_mut(), ..Default::default() };
        // SAFETY: all pointers are null or valid.
        let nic = unsafe { read(&raw) };
        assert_eq!((nic.device, nic.link), (NicDevice::default(), NicLink::default()));
        assert_eq!((nic.bus.kind.as_raw(), nic.bus.pci), (7, None));
    }
}
