use super::enumerations::enumeration;

enumeration! {
    /// Operation of the members of a group.
    ///
    /// ```
    /// use loom_core::{collective::Collective, vocabulary::CollectiveOp};
    ///
    /// /// Whether one member has a part that the others do not have.
    /// fn has_root(collective: Collective) -> bool {
    ///     let op = collective.op();
    ///     matches!(op, CollectiveOp::BROADCAST | CollectiveOp::REDUCE | CollectiveOp::SCATTER | CollectiveOp::GATHER)
    /// }
    ///
    /// assert!(has_root(Collective::gather::<u64>()) && !has_root(Collective::all_gather::<u64>()));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_collective(3)`
    #[doc(alias = "fi_collective_op")]
    CollectiveOp {
        /// Completes after every member has begun it.
        BARRIER = 0, "FI_BARRIER";
        /// Every member gets the root's elements.
        BROADCAST = 1, "FI_BROADCAST";
        /// Each member sends a part of its elements to each member.
        ALLTOALL = 2, "FI_ALLTOALL";
        /// Every member gets the combined elements of all members.
        ALLREDUCE = 3, "FI_ALLREDUCE";
        /// Every member gets the elements of all members.
        ALLGATHER = 4, "FI_ALLGATHER";
        /// Each member gets a part of the combined elements of all members.
        REDUCE_SCATTER = 5, "FI_REDUCE_SCATTER";
        /// The root gets the combined elements of all members.
        REDUCE = 6, "FI_REDUCE";
        /// Each member gets a part of the root's elements.
        SCATTER = 7, "FI_SCATTER";
        /// The root gets the elements of all members.
        GATHER = 8, "FI_GATHER";
    }
}
