use loom_static::profiles::{NativeAtomics, Profile, Shm, Software};

twins! {
    fn atomics_over_a_profile_without() {
        fn counts_with_atomics<P: NativeAtomics>() {}
        counts_with_atomics::<Shm>();
    }

    fn type_that_is_not_a_profile() {
        let _ = Software::hints();
    }
}
