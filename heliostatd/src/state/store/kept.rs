//! What outlives a control plane of what people have asked it about its store: a small file beside its socket.
//!
//! ```text
//! {"format": 1,
//!  "attached": {"path": "/srv/store", "identity": "00ff.."},     by hand, and not let go of since
//!  "rates": {"identity": "00ff..", "of": {"7": 1048576}}}        by generation of the area
//! ```
//! A store that the configuration names needs none of it to be found again. A file that cannot be read is
//! told of, and taken as empty: nothing here is needed to open a store by hand.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};
use tracing::warn;

/// Which store it is.
pub type Identity = [u8; 16];

/// What is kept, and where.
#[derive(Default, Debug)]
pub struct Kept {
    path: Option<PathBuf>,
    attached: Option<(PathBuf, Identity)>,
    rates: Option<(Identity, BTreeMap<u64, u64>)>,
}

/// More is no file of ours: each of 65,536 rates takes less than 48 bytes.
const BYTES_MAX: u64 = 4 << 20;

impl Kept {
    /// What an earlier control plane has left at the path; without one nothing is kept.
    pub fn load(path: Option<PathBuf>) -> Kept {
        let text = path.as_deref().and_then(read);
        let mut kept = Kept { path, ..Kept::default() };
        let Some(text) = text else { return kept };
        let found: Option<Value> = serde_json::from_str(&text).ok();
        let Some(found) = found.filter(|found| found["format"] == 1) else {
            let path = kept.path.as_deref().unwrap_or(Path::new(""));
            warn!(path = %path.display(), "what was kept of the store cannot be read");
            return kept;
        };
        kept.attached = attached(&found["attached"]);
        kept.rates = rates(&found["rates"]);
        kept
    }

    /// The store that was attached by hand, and which it is.
    pub fn attached(&self) -> Option<(PathBuf, Identity)> {
        self.attached.clone()
    }

    /// A store was attached by hand, or let go of.
    pub fn set_attached(&mut self, attached: Option<(PathBuf, Identity)>) {
        if self.attached != attached {
            self.attached = attached;
            self.save();
        }
    }

    /// Rates of areas of a store, by generation.
    pub fn rates(&self, identity: &Identity) -> BTreeMap<u64, u64> {
        let own = self.rates.as_ref().filter(|(of, _)| of == identity);
        own.map(|(_, rates)| rates.clone()).unwrap_or_default()
    }

    /// Somebody has said how fast an area may be used. Rates of another store are forgotten.
    pub fn set_rate(&mut self, identity: Identity, generation: u64, bytes_per_second: u64) {
        let mut rates = self.rates(&identity);
        rates.insert(generation, bytes_per_second);
        self.rates = Some((identity, rates));
        self.save();
    }

    /// Areas are gone.
    pub fn forget(&mut self, identity: &Identity, is_there: impl Fn(u64) -> bool) {
        let Some((_, rates)) = self.rates.as_mut().filter(|(of, _)| of == identity) else { return };
        let before = rates.len();
        rates.retain(|generation, _| is_there(*generation));
        if rates.len() < before {
            self.save();
        }
    }

    fn save(&self) {
        let Some(path) = &self.path else { return };
        if let Err(error) = self.write(path) {
            warn!(path = %path.display(), %error, "what is to outlive the control plane is not kept");
        }
    }

    /// As a whole or not at all.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let mut options = std::fs::File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(self.text().as_bytes())?;
        std::fs::rename(new, path)
    }

    fn text(&self) -> String {
        let attached = self.attached.as_ref().map(
            |(path, identity)| json!({ "path": path.to_string_lossy(), "identity": hex(identity) }),
        );
        let rates = self.rates.as_ref().map(|(identity, rates)| {
            let of: serde_json::Map<String, Value> =
                rates.iter().map(|(area, rate)| (area.to_string(), json!(rate))).collect();
            json!({ "identity": hex(identity), "of": of })
        });
        format!("{}\n", json!({ "format": 1, "attached": attached, "rates": rates }))
    }
}

fn read(path: &Path) -> Option<String> {
    let is_ours = std::fs::metadata(path).ok()?.len() <= BYTES_MAX;
    is_ours.then(|| std::fs::read_to_string(path).ok()).flatten()
}

fn attached(found: &Value) -> Option<(PathBuf, Identity)> {
    let path = PathBuf::from(found["path"].as_str()?);
    path.is_absolute().then_some(())?;
    Some((path, identity(&found["identity"])?))
}

fn rates(found: &Value) -> Option<(Identity, BTreeMap<u64, u64>)> {
    let each = found["of"].as_object()?.iter();
    let each = each.filter_map(|(area, rate)| Some((area.parse().ok()?, rate.as_u64()?)));
    Some((identity(&found["identity"])?, each.collect()))
}

fn hex(identity: &Identity) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn identity(found: &Value) -> Option<Identity> {
    let text = found.as_str()?;
    let mut bytes = Identity::default();
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_there_again_and_what_is_gone_is_not() {
        let folder = std::env::temp_dir().join(format!("heliostat-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control.sock.store");
        let (own, other) = ([0xa5; 16], [7; 16]);
        let mut kept = Kept::load(Some(path.clone()));
        kept.set_attached(Some(("/srv/a store".into(), own)));
        kept.set_rate(other, 1, 5);
        kept.set_rate(own, 2, 0);
        kept.set_rate(own, 3, u64::MAX);
        let mut again = Kept::load(Some(path.clone()));
        assert_eq!(again.attached(), Some(("/srv/a store".into(), own)));
        assert_eq!(again.rates(&own), BTreeMap::from([(2, 0), (3, u64::MAX)]));
        assert!(again.rates(&other).is_empty(), "of another store");
        again.forget(&own, |area| area == 3);
        again.set_attached(None);
        let last = Kept::load(Some(path.clone()));
        assert_eq!((last.attached(), last.rates(&own).len()), (None, 1));
        for wrong in
            ["", "{", "[]", "{\"format\":2}", "{\"format\":1,\"attached\":{\"path\":\"x\"}}"]
        {
            std::fs::write(&path, wrong).unwrap();
            let kept = Kept::load(Some(path.clone()));
            assert!(kept.attached().is_none() && kept.rates(&own).is_empty(), "{wrong}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
