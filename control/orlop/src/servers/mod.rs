//! Several servers: how one joins the others, and the etcd that they share.
//!
//! | file | contains |
//! | --- | --- |
//! | `token` | the form of a token with which a server joins |
//! | `bundle` | the keys that all servers share, as they travel |
//! | `offer` | what `orlop token create --server` leaves in the cluster |
//! | `join` | what `orlop server --join` does with it |
//! | `etcd` | the member of etcd beside a server |
//! | `names` | the names and addresses in a server's certificate |

mod bundle;
mod error;
pub mod etcd;
pub mod join;
pub mod names;
pub mod offer;
mod token;

use control_client::Client;

pub use error::Error;
pub use etcd::ManagedEtcd;
pub use token::ServerToken;

/// Lets a client use any of the cluster's servers, for the lifetime of the process.
pub fn follow(client: &Client) {
    let client = client.clone();
    control_supervise::task("api-servers").spawn_restarting(move || {
        let client = client.clone();
        async move { client.follow_servers().await }
    });
}
