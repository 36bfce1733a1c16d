//! Removes what a version of the datapath pinned.

use std::fs;
use std::path::Path;

use crate::devices;
use crate::error::Error;
use crate::growth;
use crate::links;
use crate::pins::{DEVICE_LINKS, LINKS, files, remove_dir, versions};

/// Removes all versions but ours, whose programs are attached by now.
pub(crate) fn remove_other_versions(pin_dir: &Path, ours: &Path) -> Result<(), Error> {
    for version in versions(pin_dir)?.iter().filter(|version| *version != ours) {
        tracing::info!(directory = %version.display(), "removing the datapath of another version");
        // First those that translate: whom they sent to a backend since ours
        // are attached, ours must know too.
        let links = version.join(LINKS);
        for pinned in links
            .exists()
            .then(|| files(&links))
            .transpose()?
            .iter()
            .flatten()
        {
            let name = pinned.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with("connect") || name.starts_with("sendmsg")) {
                links::remove(pinned)?;
            }
        }
        growth::carry_sockets(version, ours)?;
        remove_version(version)?;
    }
    Ok(())
}

/// Links go first: once they are gone, nobody reads the maps.
pub(crate) fn remove_version(directory: &Path) -> Result<(), Error> {
    let links = directory.join(LINKS);
    if links.exists() {
        devices::attach::remove(&links.join(DEVICE_LINKS))?;
        for pinned in files(&links)? {
            links::remove(&pinned)?;
        }
        remove_dir(&links)?;
    }
    for path in files(directory)? {
        fs::remove_file(&path).map_err(|source| Error::File {
            verb: "remove",
            path,
            source,
        })?;
    }
    remove_dir(directory)
}
