//! Maps a client certificate to a user.
//!
//! The rules are kube-apiserver's: the common name is the user, every organisation a
//! group, the extension 1.3.6.1.4.1.57683.2 the uid. The caller verifies the certificate
//! chain ([`control_pki::ClientTrust`]).

use x509_parser::der_parser::oid;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::user::AUTHENTICATED;
use crate::user::User;

/// Error for a certificate that names no user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The bytes are no certificate.
    #[error("the client certificate cannot be read")]
    Unreadable,
    /// There is no name in it.
    #[error("the client certificate has no common name: issue one with the user's name as CN")]
    Nameless,
}

/// The user that a certificate (DER) names.
///
/// # Errors
/// [`CertificateError`].
pub fn user_of_certificate(der: &[u8]) -> Result<User, CertificateError> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
    let name = certificate
        .subject()
        .iter_common_name()
        .find_map(|cn| cn.as_str().ok());
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or(CertificateError::Nameless)?;
    let uid = certificate
        .extensions()
        .iter()
        .find(|extension| extension.oid == oid!(1.3.6.1.4.1.57683.2))
        // A UTF8String: tag, length, text.
        .and_then(|extension| extension.value.get(2..))
        .and_then(|text| std::str::from_utf8(text).ok())
        .unwrap_or_default();
    let mut user = User {
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..User::default()
    };
    for group in certificate
        .subject()
        .iter_organization()
        .filter_map(|org| org.as_str().ok())
    {
        user.join(group);
    }
    user.join(AUTHENTICATED);
    let digest: String = control_pki::fingerprint(der);
    user.extra.push((
        crate::tokens::CREDENTIAL_ID.to_owned(),
        vec![format!("X509SHA256={digest}")],
    ));
    Ok(user)
}

#[cfg(test)]
mod tests {
    use control_pki::{Authority, Spec, parse_certificates};

    use super::*;

    #[test]
    fn the_common_name_is_the_user_and_organisations_are_groups() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let issued = authority
            .issue(&Spec::client("system:node:n1", &["system:nodes", "ops"]))
            .expect("issued");
        let der = parse_certificates(&issued.cert_pem).expect("parsed");
        let user = user_of_certificate(&der[0]).expect("a user");
        assert_eq!(user.name, "system:node:n1");
        assert_eq!(user.groups, ["system:nodes", "ops", "system:authenticated"]);
        assert_eq!(user.node(), Some("n1"));
        assert!(
            user.extra[0].1[0].starts_with("X509SHA256=") && user.extra[0].1[0].len() == 11 + 64
        );
    }

    #[test]
    fn a_certificate_without_a_name_and_rubbish_are_refused() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let issued = authority.issue(&Spec::client("", &[])).expect("issued");
        let der = parse_certificates(&issued.cert_pem).expect("parsed");
        assert!(matches!(
            user_of_certificate(&der[0]),
            Err(CertificateError::Nameless)
        ));
        assert!(matches!(
            user_of_certificate(b"x"),
            Err(CertificateError::Unreadable)
        ));
    }
}
