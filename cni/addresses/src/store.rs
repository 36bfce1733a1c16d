//! The allocated addresses, kept in a folder.
//!
//! There is one symbolic link per address, named by it, that points to its holder:
//! `10.1.2.7 -> 4f1c…/eth0`. The kernel creates it atomically and only once, so a crash
//! loses no more than the interrupted call, an address never has two holders, and an
//! operator reads the state with `ls -l`. A released address is called `resting-…` until
//! it has [rested](REST). A lock orders concurrent calls, possibly of several processes.
//!
//! Answers are written durably: the folder is flushed after the lock is released, so that
//! concurrent calls are flushed together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, ErrorKind},
    net::IpAddr,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ipnet::IpNet;
use nix::fcntl::{Flock, FlockArg};

use crate::{
    Error, Holder, Pool, REST,
    pool::{self, Choice, UsedAddresses},
};

/// Prefix of the name of what rests.
const RESTING: &str = "resting-";
/// Prefix of the name of a range's last address that was given.
const LAST: &str = "last-";

/// The addresses of one network on this node.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    rest: Duration,
}

/// An assigned address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAddress {
    /// The address.
    pub address: IpAddr,
    /// The holder; `None` if the file is broken.
    pub holder: Option<Holder>,
    /// The age, according to the file system.
    pub age: Duration,
}

/// The contents of a folder.
#[derive(Debug, Default)]
struct Listing {
    held: Vec<HeldAddress>,
    resting: Vec<(IpAddr, Duration)>,
}

/// A request for addresses.
#[derive(Clone, Copy, Debug)]
pub struct AddressRequest<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// Those that it shall be, if any, one of an IP version.
    pub wanted: &'a [IpAddr],
    /// For whom.
    pub holder: &'a Holder,
}

/// Addresses assigned to several holders.
#[derive(Debug)]
#[must_use = "nobody may be told before it is flushed"]
pub struct TakenAddresses<'a> {
    store: &'a Store,
    /// The addresses of each request in turn, or why there are none.
    pub given: Vec<Result<Vec<IpAddr>, Error>>,
    fresh: bool,
}

/// State shared by requests that are served together.
struct CrowdLedger {
    known: UsedAddresses,
    own: BTreeMap<Holder, Vec<IpAddr>>,
    /// The last allocated address of each range.
    last: BTreeMap<IpNet, IpAddr>,
    /// Anything was written.
    fresh: bool,
}

// === impl Taken ===

impl TakenAddresses<'_> {
    /// Returns once it is written durably.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn flush(&self) -> Result<(), Error> {
        if self.fresh {
            self.store.flush()?;
        }
        Ok(())
    }
}

// === impl Book ===

impl CrowdLedger {
    fn of(listing: Listing, rest: Duration) -> Self {
        let known = listing.known(rest);
        let mut own: BTreeMap<Holder, Vec<IpAddr>> = BTreeMap::new();
        for held in listing.held {
            if let Some(holder) = held.holder {
                own.entry(holder).or_default().push(held.address);
            }
        }
        Self {
            known,
            own,
            last: BTreeMap::new(),
            fresh: false,
        }
    }
}

// === impl Store ===

impl Store {
    /// The store of `network` under `data_dir`; the folder is made.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open(data_dir: &Path, network: &str) -> Result<Self, Error> {
        let folder = data_dir.join(network);
        fs::create_dir_all(&folder).map_err(file("make", &folder))?;
        Ok(Self { folder, rest: REST })
    }

    /// The same with another time of rest.
    #[must_use]
    pub fn resting_for(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// Allocates addresses of `pool` for `holder`, one of each of its IP versions: those
    /// that it has already, those `wanted`, else free ones.
    ///
    /// # Errors
    /// See [`enum@Error`]; then `holder` has what it had before.
    pub fn take(
        &self,
        pool: &Pool,
        wanted: &[IpAddr],
        holder: &Holder,
    ) -> Result<Vec<IpAddr>, Error> {
        let wish = AddressRequest {
            pool,
            wanted,
            holder,
        };
        let mut taken = self.take_all(&[wish])?;
        let given = taken.given.pop().unwrap_or_else(|| Ok(Vec::new()))?;
        taken.flush()?;
        Ok(given)
    }

    /// Allocates for several requests at once, of which some may fail. Must be
    /// flushed before any answer is sent.
    ///
    /// # Errors
    /// [`Error::File`]: all requests fail.
    pub fn take_all(&self, wishes: &[AddressRequest<'_>]) -> Result<TakenAddresses<'_>, Error> {
        let _lock = self.lock()?;
        let mut book = CrowdLedger::of(self.list()?, self.rest);
        let given = wishes.iter().map(|wish| self.grant(wish, &mut book));
        let given = given.collect();
        for (range, address) in &book.last {
            self.point(&last_name(*range), &address.to_string())?;
        }
        Ok(TakenAddresses {
            store: self,
            given,
            fresh: book.fresh,
        })
    }

    fn grant(
        &self,
        wish: &AddressRequest<'_>,
        book: &mut CrowdLedger,
    ) -> Result<Vec<IpAddr>, Error> {
        let AddressRequest { pool, wanted, .. } = wish;
        if pool.ranges.is_empty() {
            return Err(Error::NoPool(pool.name.clone()));
        }
        if let Some(foreign) = wanted.iter().find(|it| !pool.may_give(**it)) {
            return Err(Error::Foreign {
                address: *foreign,
                pool: pool.name.clone(),
            });
        }
        let (mut given, mut new) = (Vec::new(), Vec::new());
        for v4 in pool.versions() {
            match self.take_one(wish, v4, book) {
                Ok((address, fresh)) => {
                    if fresh {
                        book.known.held.insert(address);
                        book.own
                            .entry(wish.holder.clone())
                            .or_default()
                            .push(address);
                        new.push(address);
                    }
                    given.push(address);
                }
                Err(error) => {
                    for address in &new {
                        self.remove(&address.to_string())?;
                        book.known.held.remove(address);
                    }
                    if let Some(own) = book.own.get_mut(wish.holder) {
                        own.retain(|it| !new.contains(it));
                    }
                    return Err(error);
                }
            }
        }
        book.fresh |= !new.is_empty();
        Ok(given)
    }

    /// An address of an IP version, and whether it was not the holder's before.
    fn take_one(
        &self,
        wish: &AddressRequest<'_>,
        v4: bool,
        book: &mut CrowdLedger,
    ) -> Result<(IpAddr, bool), Error> {
        let AddressRequest {
            pool,
            wanted,
            holder,
        } = wish;
        let wanted = wanted.iter().find(|address| address.is_ipv4() == v4);
        let is_own = |address: &&IpAddr| {
            address.is_ipv4() == v4 && pool.ranges.iter().any(|range| range.contains(*address))
        };
        let own = book.own.get(holder).into_iter().flatten().find(is_own);
        if let Some(own) = own
            && wanted.is_none_or(|wanted| wanted == own)
        {
            return Ok((*own, false));
        }
        if let Some(wanted) = wanted {
            // A specifically requested address need not have rested.
            self.link(*wanted, holder)?;
            return Ok((*wanted, true));
        }
        let mut wait: Option<Duration> = None;
        for range in pool.ranges_of_version(v4) {
            let last = book.last.get(&range).copied();
            match pool::choose(range, &book.known, last.or_else(|| self.last(range))) {
                Choice::Address(address) => {
                    self.link(address, holder)?;
                    book.last.insert(range, address);
                    return Ok((address, true));
                }
                Choice::Wait(left) => wait = Some(wait.map_or(left, |wait| wait.min(left))),
                Choice::Nothing => {}
            }
        }
        let pool = pool.name.clone();
        Err(match wait {
            Some(next) => Error::Resting { pool, next },
            None => Error::Exhausted { pool },
        })
    }

    /// The addresses that `holder` has.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn addresses_of(&self, holder: &Holder) -> Result<Vec<IpAddr>, Error> {
        let mut addresses: Vec<IpAddr> = self
            .held()?
            .into_iter()
            .filter(|held| held.holder.as_ref() == Some(holder))
            .map(|held| held.address)
            .collect();
        addresses.sort_by_key(|address| (address.is_ipv6(), *address));
        Ok(addresses)
    }

    /// All that is given out.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn held(&self) -> Result<Vec<HeldAddress>, Error> {
        Ok(self.list()?.held)
    }

    /// Gives back all that `holder` has; giving back nothing is no error.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn give_back(&self, holder: &Holder) -> Result<Vec<IpAddr>, Error> {
        self.give_back_where(|held| held.holder.as_ref() == Some(holder))
    }

    /// Releases for several holders at once.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn give_back_all(&self, holders: &BTreeSet<Holder>) -> Result<Vec<IpAddr>, Error> {
        self.give_back_where(|held| held.holder.as_ref().is_some_and(|it| holders.contains(it)))
    }

    /// Gives back all whose holder is not in `keep` and that were given at least
    /// `age` ago, and files that name none.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn give_back_others(
        &self,
        keep: &BTreeSet<Holder>,
        age: Duration,
    ) -> Result<Vec<IpAddr>, Error> {
        self.give_back_where(|held| {
            held.age >= age && held.holder.as_ref().is_none_or(|it| !keep.contains(it))
        })
    }

    fn give_back_where(&self, gone: impl Fn(&HeldAddress) -> bool) -> Result<Vec<IpAddr>, Error> {
        let mut given = Vec::new();
        {
            let _lock = self.lock()?;
            let listing = self.list()?;
            for held in listing.held.iter().filter(|held| gone(held)) {
                let name = held.address.to_string();
                let (from, to) = (self.path(&name), self.path(&(RESTING.to_owned() + &name)));
                match fs::rename(&from, &to) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(file("give back", &from)(error));
                    }
                    _ => given.push(held.address),
                }
            }
            for (address, rested) in &listing.resting {
                if *rested >= self.rest {
                    self.remove(&format!("{RESTING}{address}"))?;
                }
            }
        }
        if !given.is_empty() {
            self.flush()?;
        }
        Ok(given)
    }

    /// Checks whether a pod could get addresses of `pool` now.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn room(&self, pool: &Pool) -> Result<(), Error> {
        if pool.ranges.is_empty() {
            return Err(Error::NoPool(pool.name.clone()));
        }
        let mut known = self.list()?.known(self.rest);
        // Resting addresses will be free in a moment.
        known.resting.clear();
        for v4 in pool.versions() {
            let free = pool
                .ranges_of_version(v4)
                .any(|range| pool::choose(range, &known, None) != Choice::Nothing);
            if !free {
                return Err(Error::Exhausted {
                    pool: pool.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn lock(&self) -> Result<Flock<File>, Error> {
        let path = self.path("lock");
        let lock = File::create(&path).map_err(file("make", &path))?;
        Flock::lock(lock, FlockArg::LockExclusive)
            .map_err(|(_, errno)| file("lock", &path)(errno.into()))
    }

    /// Makes the address the holder's.
    fn link(&self, address: IpAddr, holder: &Holder) -> Result<(), Error> {
        let name = address.to_string();
        let path = self.path(&name);
        let target = format!("{}/{}", holder.container_id, holder.ifname);
        match symlink(&target, &path) {
            Ok(()) => self.remove(&(RESTING.to_owned() + &name)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::Taken {
                address,
                holder: read(&path).map_or_else(String::new, |it| it.container_id),
            }),
            Err(error) => Err(file("make", &path)(error)),
        }
    }

    /// The address of a range that was given last.
    fn last(&self, range: IpNet) -> Option<IpAddr> {
        let target = fs::read_link(self.path(&last_name(range))).ok()?;
        target.to_str()?.parse().ok()
    }

    fn point(&self, name: &str, target: &str) -> Result<(), Error> {
        let new = self.path("new");
        self.remove("new")?;
        symlink(target, &new).map_err(file("make", &new))?;
        let path = self.path(name);
        fs::rename(&new, &path).map_err(file("make", &path))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), Error> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(file("flush", &self.folder))
    }

    /// Lists allocated and resting addresses. A link or file without a valid holder (of
    /// another program) still blocks its address, until it is collected.
    fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        for entry in fs::read_dir(&self.folder).map_err(file("read", &self.folder))? {
            let entry = entry.map_err(file("read", &self.folder))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Ok(address) = name.parse() {
                listing.held.push(HeldAddress {
                    address,
                    holder: read(&entry.path()),
                    age: age(&entry.path()),
                });
            } else if let Some(Ok(address)) = name.strip_prefix(RESTING).map(str::parse) {
                listing.resting.push((address, age(&entry.path())));
            }
        }
        Ok(listing)
    }
}

// === impl Listing ===

impl Listing {
    fn known(&self, rest: Duration) -> UsedAddresses {
        UsedAddresses {
            held: self.held.iter().map(|held| held.address).collect(),
            resting: self
                .resting
                .iter()
                .map(|(address, rested)| (*address, rest.saturating_sub(*rested)))
                .filter(|(_, left)| !left.is_zero())
                .collect(),
        }
    }
}

fn last_name(range: IpNet) -> String {
    format!("{LAST}{}_{}", range.network(), range.prefix_len())
}

/// Reads the holder of an address: the target of a link, or the content of a file in
/// versions before 0.2.
fn read(path: &Path) -> Option<Holder> {
    match fs::read_link(path) {
        Ok(target) => {
            let (container_id, ifname) = target.to_str()?.rsplit_once('/')?;
            Some(Holder {
                container_id: container_id.to_owned(),
                ifname: ifname.to_owned(),
            })
        }
        Err(_) => serde_json::from_slice(&fs::read(path).ok()?).ok(),
    }
}

/// How long ago a name was made or changed; for ever, if the clock was set back.
fn age(path: &Path) -> Duration {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Duration::ZERO;
    };
    let since = Duration::new(
        u64::try_from(found.ctime()).unwrap_or_default(),
        u32::try_from(found.ctime_nsec()).unwrap_or_default(),
    );
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.checked_sub(since).unwrap_or(Duration::MAX)
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests;
