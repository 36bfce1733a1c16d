//! `DenyServiceExternalIPs`: Services get no external addresses.

use control_kinds::admission as rules;
use ipnet::IpNet;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// The plugin, with ranges of addresses that Services may have nevertheless.
#[derive(Debug)]
pub struct DenyServiceExternalIPs(pub Vec<IpNet>);

impl Admission for DenyServiceExternalIPs {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let checked = rules::check_external_ips(change.new, change.old, &self.0);
        done(checked.map_err(|why| attributes.refuse(change.new, &why)))
    }
}
