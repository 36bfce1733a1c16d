//! Feature gates of 1.36 that change the scheduler's behaviour.

/// The enabled gates. All are off by default, as in kube-scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `GenericWorkload`: pods of one PodGroup are decided about together, where the API server
    /// serves PodGroups.
    pub generic_workload: bool,
    /// `GangScheduling`: a PodGroup of the policy `gang` is scheduled when enough of its pods
    /// fit. Needs `generic_workload`.
    pub gang_scheduling: bool,
}
