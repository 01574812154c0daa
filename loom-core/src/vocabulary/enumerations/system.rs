enumeration! {
    /// Kind of bus of a network card.
    ///
    /// # References
    ///
    /// - `fi_nic(3)`
    #[doc(alias = "fi_bus_type")]
    BusType {
        /// Not known.
        UNSPEC = 0, "FI_BUS_UNSPEC";
        /// PCI.
        PCI = 1, "FI_BUS_PCI";
    }
}

enumeration! {
    /// State of a network card's link.
    ///
    /// # References
    ///
    /// - `fi_nic(3)`
    #[doc(alias = "fi_link_state")]
    LinkState {
        /// Not known.
        UNKNOWN = 0, "FI_LINK_UNKNOWN";
        /// Down.
        DOWN = 1, "FI_LINK_DOWN";
        /// Up.
        UP = 2, "FI_LINK_UP";
    }
}

enumeration! {
    /// Type of an environment parameter.
    ///
    /// ```
    /// use loom_core::vocabulary::ParamType;
    ///
    /// /// Whether a text can be the value of a parameter.
    /// fn fits(kind: ParamType, text: &str) -> bool {
    ///     match kind {
    ///         ParamType::INT => text.parse::<i32>().is_ok(),
    ///         ParamType::BOOL => ["0", "1", "no", "yes", "false", "true", "off", "on"].contains(&text),
    ///         _ => true,
    ///     }
    /// }
    ///
    /// assert!(fits(ParamType::BOOL, "yes") && !fits(ParamType::INT, "yes"));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_getparams(3)`
    #[doc(alias = "fi_param_type")]
    ParamType {
        /// Text.
        STRING = 0, "FI_PARAM_STRING";
        /// A number.
        INT = 1, "FI_PARAM_INT";
        /// Yes or no.
        BOOL = 2, "FI_PARAM_BOOL";
        /// A size in bytes, with an optional unit.
        SIZE_T = 3, "FI_PARAM_SIZE_T";
    }
}
