//! Acting as somebody else (`kubectl --as`), for those who may.
//!
//! The headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-KEY` name the
//! other; for each of them the caller needs the verb `impersonate`.

use control_access::{ANONYMOUS, split_service_account};
use control_access::{
    AUTHENTICATED, Attributes, SERVICE_ACCOUNTS, SERVICE_ACCOUNTS_PREFIX, UNAUTHENTICATED, User,
};
use control_types::status::Status;
use http::HeaderMap;

use crate::chain::{Access, Verdict, denied};
use crate::request::percent_decode;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user that the request is to be made as.
///
/// # Errors
/// 403 if the caller may not act as that user, 400 if the headers make no sense.
pub(super) fn apply(
    access: &dyn Access,
    caller: User,
    headers: &HeaderMap,
) -> Result<User, Status> {
    let text = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().map(ToOwned::to_owned))
            .collect::<Result<Vec<_>, _>>()
    };
    let bad = |_| Status::bad_request("impersonation headers must be visible ASCII");
    let users = text(USER).map_err(bad)?;
    let groups = text(GROUP).map_err(bad)?;
    let uids = text(UID).map_err(bad)?;
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else {
            continue;
        };
        let value = value.to_str().map_err(bad)?.to_owned();
        let key = percent_decode(key).to_lowercase();
        match extra.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => extra.push((key, vec![value])),
        }
    }
    let Some(name) = users.into_iter().next().filter(|name| !name.is_empty()) else {
        if groups.is_empty() && uids.is_empty() && extra.is_empty() {
            return Ok(caller);
        }
        return Err(Status::internal(
            "requested impersonation without impersonating a user: set Impersonate-User",
        ));
    };

    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let attributes = Attributes {
            user: caller.clone(),
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        };
        match access.authorize(&attributes) {
            Verdict::Allow => Ok(()),
            Verdict::Deny(reason) => Err(denied(&attributes, &reason)),
        }
    };
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let mut user = User {
        name,
        groups,
        extra,
        ..User::default()
    };
    let account = split_service_account(&user.name)
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    match &account {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &user.name)?,
    }
    for group in &user.groups {
        may("", "groups", "", "", group)?;
    }
    if let Some(uid) = uids.into_iter().next() {
        may(AUTHENTICATION, "uids", "", "", &uid)?;
        user.uid = uid;
    }
    for (key, values) in &user.extra {
        for value in values {
            may(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    if let (Some((namespace, _)), true) = (&account, user.groups.is_empty()) {
        user.join(SERVICE_ACCOUNTS);
        user.join(&format!("{SERVICE_ACCOUNTS_PREFIX}{namespace}"));
    }
    if user.name == ANONYMOUS {
        user.join(UNAUTHENTICATED);
    } else if !user.is_in(UNAUTHENTICATED) {
        user.join(AUTHENTICATED);
    }
    Ok(user)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::request::Parts;

    use super::*;

    /// Lets `ann` impersonate the user `bob` and the group `ops`.
    struct Few;

    impl Access for Few {
        fn authenticate<'a>(&'a self, _parts: &'a Parts) -> BoxFuture<'a, Result<User, Status>> {
            futures::future::ready(Ok(User::anonymous())).boxed()
        }

        fn authorize(&self, attributes: &Attributes) -> Verdict {
            let what = (&*attributes.resource, &*attributes.name);
            let allowed = attributes.user.name == "ann"
                && attributes.verb == "impersonate"
                && [
                    ("users", "bob"),
                    ("groups", "ops"),
                    ("serviceaccounts", "robot"),
                ]
                .contains(&what);
            if allowed {
                Verdict::Allow
            } else {
                Verdict::Deny(String::new())
            }
        }
    }

    fn ask(caller: &str, headers: &[(&'static str, &'static str)]) -> Result<User, Status> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    name.parse().expect("a name"),
                    value.parse().expect("a value"),
                )
            })
            .collect();
        apply(&Few, User::named(caller, []), &headers)
    }

    #[test]
    fn who_may_act_as_another_becomes_that_other() {
        let bob = ask("ann", &[(USER, "bob"), (GROUP, "ops")]).expect("allowed");
        assert_eq!(
            (&*bob.name, &bob.groups[..]),
            ("bob", &["ops".to_owned(), AUTHENTICATED.to_owned()][..])
        );
        let robot = ask("ann", &[(USER, "system:serviceaccount:a:robot")]).expect("allowed");
        assert!(robot.is_in("system:serviceaccounts:a"));
        assert_eq!(ask("ann", &[]).expect("herself").name, "ann");
    }

    #[test]
    fn who_may_not_is_refused_for_each_header() {
        for headers in [
            &[(USER, "root")][..],
            &[(USER, "bob"), (GROUP, "system:masters")],
            &[(USER, "bob"), (UID, "1")],
            &[(USER, "bob"), ("impersonate-extra-scopes", "all")],
        ] {
            assert_eq!(ask("ann", headers).expect_err("refused").code, 403);
        }
        assert_eq!(ask("eve", &[(USER, "bob")]).expect_err("refused").code, 403);
        assert!(
            ask("ann", &[(GROUP, "ops")]).is_err(),
            "a group without a user"
        );
    }
}
