//! Which collective operations there are: [`CollectiveOp`].

use super::enumerations::enumeration;

enumeration! {
    /// What the members of a group do together.
    ///
    /// ```
    /// use loom_core::collective::Collective;
    /// use loom_core::vocabulary::CollectiveOp;
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
        /// Ends when every member has begun it.
        BARRIER = 0, "FI_BARRIER";
        /// The elements of the root reach every member.
        BROADCAST = 1, "FI_BROADCAST";
        /// Each member gives a part of its elements to each member.
        ALLTOALL = 2, "FI_ALLTOALL";
        /// The elements of all members are combined, and every member gets the result.
        ALLREDUCE = 3, "FI_ALLREDUCE";
        /// Every member gets the elements of all members.
        ALLGATHER = 4, "FI_ALLGATHER";
        /// The elements of all members are combined, and each member gets a part of the result.
        REDUCE_SCATTER = 5, "FI_REDUCE_SCATTER";
        /// The elements of all members are combined, and the root gets the result.
        REDUCE = 6, "FI_REDUCE";
        /// Each member gets a part of the root's elements.
        SCATTER = 7, "FI_SCATTER";
        /// The root gets the elements of all members.
        GATHER = 8, "FI_GATHER";
    }
}
