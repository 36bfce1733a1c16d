//! Whether the client certificate of a kubeconfig is valid now: a server only
//! says that it does not know the user, long after the start.

use std::fs;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use kube::config::AuthInfo;
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// Returns what is wrong with the validity of the user's certificate. A missing or
/// unreadable certificate is left for others to report.
pub fn problem(user: &AuthInfo, now: Timestamp) -> Option<String> {
    let pem = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => BASE64_STANDARD.decode(data).ok()?,
        (None, Some(path)) => fs::read(path).ok()?,
        (None, None) => return None,
    };
    let certificate = CertificateDer::from_pem_slice(&pem).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).ok()?;
    let validity = certificate.validity();
    let begins = Timestamp::from_second(validity.not_before.timestamp()).ok()?;
    let expires = Timestamp::from_second(validity.not_after.timestamp()).ok()?;
    if now > expires {
        Some(format!("its client certificate expired on {expires}"))
    } else if now < begins {
        Some(format!(
            "its client certificate is not valid before {begins}"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control_pki::{Authority, Spec};
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_certificate_is_good_between_its_two_times_only() {
        let authority = Authority::create("test").expect("an authority");
        let issued = authority
            .issue(&Spec {
                validity: Duration::from_secs(3600),
                ..Spec::client("ann", &[])
            })
            .expect("issued");
        let user = AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(&issued.cert_pem)),
            ..AuthInfo::default()
        };
        let now = Timestamp::now();
        let day = SignedDuration::from_hours(24);
        assert_eq!(problem(&user, now), None);
        let late = problem(&user, now + day).expect("expired");
        assert!(late.contains("expired on"), "{late}");
        let early = problem(&user, now - day * 2).expect("not yet valid");
        assert!(early.contains("not valid before"), "{early}");
        assert_eq!(problem(&AuthInfo::default(), now), None);
    }

    #[test]
    fn a_certificate_in_a_file_counts_as_well() {
        let authority = Authority::create("test").expect("an authority");
        let issued = authority.issue(&Spec::client("ann", &[])).expect("issued");
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("ann.crt");
        fs::write(&path, &issued.cert_pem).expect("written");
        let user = AuthInfo {
            client_certificate: Some(path.display().to_string()),
            ..AuthInfo::default()
        };
        let far = Timestamp::now() + SignedDuration::from_hours(24 * 365 * 200);
        assert!(problem(&user, far).is_some());
    }
}
