//! Maps that are pinned, opened with aya.

use std::path::Path;

use aya::maps::{HashMap, Map, MapData, MapError};

use crate::error::Error;

pub(crate) fn pinned(directory: &Path, name: &'static str) -> Result<MapData, Error> {
    let path = directory.join(name);
    if !path.exists() {
        return Err(Error::NotPinned { path });
    }
    MapData::from_pin(path).map_err(unreadable(name))
}

pub(crate) type OpenedDatapath<K, V> = (HashMap<MapData, K, V>, u32);

pub(crate) fn open<K: aya::Pod, V: aya::Pod>(
    directory: &Path,
    name: &'static str,
) -> Result<OpenedDatapath<K, V>, Error> {
    let data = pinned(directory, name)?;
    let size = data.info().map_err(unreadable(name))?.max_entries();
    let map = Map::from_map_data(data)
        .and_then(HashMap::try_from)
        .map_err(unreadable(name))?;
    Ok((map, size))
}

pub(crate) fn unreadable(map: &'static str) -> impl Fn(MapError) -> Error + Copy {
    move |source| Error::Map {
        verb: "read",
        map,
        source: Box::new(source),
    }
}
