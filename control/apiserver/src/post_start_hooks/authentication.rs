//! Publishes the authorities that this server trusts for extension servers and stock components:
//! the ConfigMap `kube-system/extension-apiserver-authentication`.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::PostStartHook;
use super::context::HookContext;
use control_registry::own;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("authentication", Duration::from_secs(10), |context| {
        run(context).boxed()
    });

async fn run(context: &HookContext) -> Result<(), Status> {
    let Some(authorities) = context.access.authorities() else {
        return Ok(());
    };
    let mut data = value!({"client-ca-file": (authorities.clients.as_str())});
    if let Some(proxies) = &authorities.front_proxy {
        data.insert("requestheader-client-ca-file", proxies.as_str());
        for (key, list) in [
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ] {
            data.insert(key, list);
        }
    }
    let object = value!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": (data)
    });
    own::ensure(context, ("", "configmaps"), own::OWN, object, |old, new| {
        own::copy(old, new, &["data"])
    })
    .await
}
