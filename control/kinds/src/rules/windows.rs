//! Windows pods: their users and credentials, and the fields that do not apply to them.

use control_types::value::Value;

use super::names;
use crate::error::{Errors, Path};
use crate::tree::Read;

const SPEC_LIMIT: usize = 64 * 1024;
const DOMAIN: usize = 256;
const USER: usize = 104;

/// `windowsOptions` of a pod or a container.
pub(crate) fn options(options: &Value, at: &Path<'_>, errors: &mut Errors) {
    if options.has("gmsaCredentialSpecName") {
        let name = options.text("gmsaCredentialSpecName");
        errors.invalid_each(
            &at.child("gmsaCredentialSpecName"),
            name,
            names::dns_subdomain(name),
        );
    }
    if options.has("gmsaCredentialSpec") {
        let (spec, at) = (
            options.text("gmsaCredentialSpec"),
            at.child("gmsaCredentialSpec"),
        );
        if spec.is_empty() {
            errors.invalid(&at, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > SPEC_LIMIT {
            errors.invalid(&at, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if options.has("runAsUserName") {
        let (name, at) = (options.text("runAsUserName"), at.child("runAsUserName"));
        user_name(name, |why| {
            errors.invalid(&at, name, format!("runAsUserName{why}"));
        });
    }
}

/// Containers that run in the node's own processes (`hostProcess`): all of a pod's or
/// none, and only in the node's network.
pub(crate) fn host_process(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let of = |holder: &Value| {
        let options = holder.dig(&["securityContext", "windowsOptions"]);
        options.truth("hostProcess")
    };
    let of_pod = of(spec);
    let (mut all, mut on_host) = (0, 0);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in spec.items(list).iter().enumerate() {
            let own = of(container);
            if let (Some(pod), Some(own)) = (of_pod, own)
                && pod != own
            {
                let list_at = at.child(list);
                let item = list_at.index(i);
                let context = item.child("securityContext");
                let why = format!(
                    "pod hostProcess value must be identical if both are specified, was {pod}"
                );
                let options = context.child("windowsOptions");
                errors.invalid(&options.child("hostProcess"), own, why);
            }
            all += 1;
            if own.or(of_pod) == Some(true) {
                on_host += 1;
            }
        }
    }
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", why);
    }
    if !spec.flag("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.child("hostNetwork"), false, why);
    }
}

/// `DOMAIN\user`, where the domain is optional.
fn user_name(name: &str, mut refuse: impl FnMut(&str)) {
    if name.is_empty() {
        return refuse(" cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return refuse(" cannot contain control characters");
    }
    if name.matches('\\').count() > 1 {
        return refuse(" cannot contain more than one backslash");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN {
            refuse("'s Domain length must be under 256 characters");
        }
        if !is_netbios(domain) && !is_dns(domain) {
            refuse("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        refuse("'s User cannot be empty");
    } else if user.len() > USER {
        refuse("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        refuse("'s User cannot contain only periods or spaces");
    }
    if user.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        refuse("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

fn is_netbios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=15).contains(&count)
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

const OF_POD: &[&str] = &["hostUsers", "shareProcessNamespace", "resources"];
const OF_POD_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const OF_CONTAINER_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Fields of a pod spec that its operating system does not know.
pub(crate) fn system(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (why, pod, own, container): (_, &[&str], &[&str], &[&str]) =
        match spec.at("os").text("name") {
            "linux" => (
                "windows options cannot be set for a linux pod",
                &[],
                &["windowsOptions"],
                &["windowsOptions"],
            ),
            "windows" => (
                "cannot be set for a windows pod",
                OF_POD,
                OF_POD_CONTEXT,
                OF_CONTAINER_CONTEXT,
            ),
            _ => return,
        };
    for field in pod.iter().filter(|field| spec.has(field)) {
        errors.forbidden(&at.child(field), why);
    }
    if !pod.is_empty() {
        for field in ["hostPID", "hostIPC"]
            .iter()
            .filter(|field| spec.flag(field))
        {
            errors.forbidden(&at.child(field), why);
        }
    }
    let context = at.child("securityContext");
    for field in own
        .iter()
        .filter(|field| spec.at("securityContext").has(field))
    {
        errors.forbidden(&context.child(field), why);
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let all = at.child(list);
        for (i, c) in spec.items(list).iter().enumerate() {
            let item = all.index(i);
            let context = item.child("securityContext");
            for field in container
                .iter()
                .filter(|field| c.at("securityContext").has(field))
            {
                errors.forbidden(&context.child(field), why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn host_process_containers_are_all_of_a_pod_in_the_network_of_the_node() {
        let own = |set: Option<bool>| match set {
            Some(set) => value!({"securityContext": {"windowsOptions": {"hostProcess": set}}}),
            None => value!({}),
        };
        let told = |pod: Option<bool>, containers: [Option<bool>; 2], host_network: bool| {
            let mut spec = own(pod);
            spec.insert("hostNetwork", host_network);
            let containers: Vec<Value> = containers.into_iter().map(own).collect();
            spec.insert("containers", containers);
            let mut errors = Errors::new();
            host_process(&spec, &Path::new("spec"), &mut errors);
            let errors = errors.into_vec().into_iter();
            let fields: Vec<String> = errors.map(|error| error.field).collect();
            fields.join(" ")
        };
        assert_eq!(told(None, [None, None], false), "");
        assert_eq!(told(Some(true), [None, Some(true)], true), "");
        assert_eq!(told(Some(false), [None, Some(false)], false), "");
        assert_eq!(told(Some(true), [None, None], false), "spec.hostNetwork");
        assert_eq!(told(None, [Some(true), None], true), "spec");
        assert_eq!(
            told(Some(true), [Some(false), None], false),
            "spec.containers[0].securityContext.windowsOptions.hostProcess spec spec.hostNetwork"
        );
    }

    #[test]
    fn user_names_are_checked_part_by_part() {
        let count = |name: &str| {
            let mut found = 0;
            user_name(name, |_| found += 1);
            found
        };
        assert_eq!(count(r"NT AUTHORITY\SYSTEM"), 0);
        assert_eq!(count("user"), 0);
        assert_eq!(count(r"a\b\c"), 1);
        assert_eq!(count("..."), 1);
        assert_eq!(count(r".bad.domain-\us/er"), 2);
    }
}
