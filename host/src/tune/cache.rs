//! The file of tuned answers.
//!
//! A JSON file with the version of its format and a list of answers. Whoever writes it takes a lock on a file
//! beside it, reads it again, merges, and replaces it whole; so two processes lose nothing of each other, and a
//! reader needs no lock. A file that cannot be understood is moved aside and said so, never trusted and never
//! deleted; one of a newer program is left as it is.

use std::fmt;
use std::fs::{File, TryLockError};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use etcetera::BaseStrategy;
use fnv::FnvHasher;
use kernels::catalogue::{self, Config, Kernel};
use serde::{Deserialize, Serialize};

use super::class::ShapeClass;
use crate::error::{Error, Result};
use crate::files;
use crate::modules;
use crate::select;

/// Version of the format. It rises with every change after which an old file says something else.
pub const FORMAT: u32 = 1;
/// How long a writer waits for another one. Writing takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an answer holds for, besides the shape: on anything else the fastest kernel may be another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Name of the device.
    pub device: String,
    /// Version of the driver.
    pub driver: String,
    /// The kernels: [`Target::kernel_set`].
    pub kernels: String,
}

impl Target {
    /// The kernels of this program on the device called `device` with this version of the driver.
    pub fn new(device: &str, driver: &str) -> Target {
        Target { device: device.to_string(), driver: driver.to_string(), kernels: Target::kernel_set().to_string() }
    }

    /// Whether the kernels are those of this program, whoever made their machine code.
    pub fn is_of_this_program(&self) -> bool {
        self.kernels.trim_end_matches(Target::JIT) == Target::kernel_set()
    }

    /// What follows the name of the kernels where the driver compiles them.
    pub const JIT: &str = "-jit";

    /// A name for the kernels of this program: a hash of the PTX and the machine code of all of them.
    pub fn kernel_set() -> &'static str {
        static NAME: LazyLock<String> = LazyLock::new(|| {
            let mut hasher = FnvHasher::default();
            for module in modules::MODULES {
                (module.entry, module.ptx, module.cubin).hash(&mut hasher);
            }
            format!("{:016x}", hasher.finish())
        });
        &NAME
    }
}

/// What was measured to be fastest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Where it was measured.
    #[serde(flatten)]
    pub target: Target,
    /// For which shapes: [`ShapeClass`] as text.
    pub class: String,
    /// Of which kernel it is the fastest configuration; `None` for the fastest of all kernels.
    pub kernel: Option<String>,
    /// The configuration, by the name of its entry.
    pub entry: String,
    /// Rows of tiles that are taken together.
    pub band: u32,
    /// Clusters that share the K of each tile; 1 where the file does not say.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parts: u32,
    /// M, N and K of the product that was measured.
    pub shape: [usize; 3],
    /// Time of one product, in seconds.
    pub seconds: f64,
    /// Time of what would have been launched without tuning, in seconds, where it was measured too.
    pub default_seconds: Option<f64>,
    /// When, in UTC, as RFC 3339 writes it.
    pub date: String,
}

fn one() -> u32 {
    1
}

fn is_one(parts: &u32) -> bool {
    *parts == 1
}

impl Answer {
    /// The row of the catalogue, if what the answer says fits it.
    pub fn config(&self) -> Option<&'static Config> {
        let config = catalogue::by_entry(&self.entry)?;
        let fits = config.kernel.loads()
            && self.kernel.as_ref().is_none_or(|kernel| kernel == config.kernel.name())
            && self.class.split(' ').next() == Some(config.element.name())
            && self.band > 0
            && select::check_parts(config.kernel, self.parts).is_ok();
        fits.then_some(config)
    }

    fn answers_the_same(&self, other: &Answer) -> bool {
        (&self.target, &self.class, &self.kernel) == (&other.target, &other.class, &other.kernel)
    }
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    answers: Vec<Answer>,
}

/// Something about the file that the user should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It could not be used and was moved.
    SetAside {
        /// What was wrong.
        reason: String,
        /// Where it is now.
        to: PathBuf,
    },
    /// It cannot be used, nor be moved.
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// Why it stays.
        stays: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::SetAside { reason, to } => {
                write!(f, "the cache of tuned answers {reason}; it was moved to {}", to.display())
            }
            Notice::Unusable { path, reason, stays } => {
                let path = path.display();
                write!(f, "the cache of tuned answers {reason}; it is not used, and {path} stays: {stays}")
            }
        }
    }
}

/// The answers of a file.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    answers: Vec<Answer>,
}

impl Cache {
    /// `hopper-gemm/tune.json` in the user's cache folder: `$XDG_CACHE_HOME`, else `$HOME/.cache`.
    ///
    /// # Errors
    /// When the environment has neither.
    pub fn default_path() -> Result<PathBuf> {
        let folders = etcetera::base_strategy::Xdg::new().map_err(|_| Error::NoCacheFolder)?;
        Ok(folders.cache_dir().join(env!("CARGO_PKG_NAME")).join("tune.json"))
    }

    /// Reads the file at `path`; one that does not exist has no answers. One that cannot be used is moved
    /// aside where that is possible, and the notice says so.
    ///
    /// # Errors
    /// When there is a file that cannot be read at all.
    pub fn read(path: &Path) -> Result<(Cache, Option<Notice>)> {
        let mut stays = String::from("a newer program may need it");
        if let Parsed::Bad { .. } = parse(path)? {
            // Read again under the lock: another process may have moved it by now.
            match with_lock(path, || recover(path)) {
                Ok(recovered) => return Ok(recovered),
                Err(error) => stays = error.to_string(),
            }
        }
        match parse(path)? {
            Parsed::Answers(answers) => Ok((Cache { answers }, None)),
            Parsed::Newer { reason } | Parsed::Bad { reason, .. } => {
                Ok((Cache::default(), Some(Notice::Unusable { path: path.to_path_buf(), reason, stays })))
            }
        }
    }

    /// All answers, in the order of the file.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The answer for `class` on `target`: of `kernel`, or of all kernels. One that names no row of the
    /// catalogue is none.
    pub fn find(&self, target: &Target, class: &ShapeClass, kernel: Option<Kernel>) -> Option<&Answer> {
        let (class, kernel) = (class.to_string(), kernel.map(Kernel::name));
        self.answers.iter().find(|answer| {
            answer.target == *target
                && answer.class == class
                && answer.kernel.as_deref() == kernel
                && answer.config().is_some()
        })
    }

    /// Adds `answers` to the file at `path`, in place of those that it has for the same target, class and
    /// kernel. Makes the file and its folder where they do not exist.
    ///
    /// # Errors
    /// When the file cannot be written, or is a newer program's.
    pub fn merge(path: &Path, answers: &[Answer]) -> Result<Option<Notice>> {
        with_lock(path, || {
            let (mut cache, notice) = recover(path)?;
            cache.answers.retain(|old| !answers.iter().any(|new| new.answers_the_same(old)));
            cache.answers.extend_from_slice(answers);
            let key = |answer: &Answer| (answer.target.device.clone(), answer.class.clone(), answer.kernel.clone());
            cache.answers.sort_by_key(key);
            let contents = Contents { format: FORMAT, answers: cache.answers };
            let mut text = serde_json::to_string_pretty(&contents).map_err(|error| failed(path, &error))?;
            text.push('\n');
            files::write_whole(path, &text).map_err(|error| failed(path, &error))?;
            Ok(notice)
        })
    }

    /// Removes the file at `path`, and says how many answers it had: `None` where there was no file, 0 for one
    /// that could not be understood. One of a newer program is removed too: that is what was asked for.
    ///
    /// # Errors
    /// When the file cannot be read or removed.
    pub fn clear(path: &Path) -> Result<Option<usize>> {
        if !path.exists() {
            return Ok(None);
        }
        with_lock(path, || {
            let count = match parse(path)? {
                Parsed::Answers(answers) => answers.len(),
                Parsed::Newer { .. } | Parsed::Bad { .. } => 0,
            };
            match std::fs::remove_file(path) {
                Ok(()) => Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(path, &error)),
            }
        })
    }
}

/// What a file turned out to be.
enum Parsed {
    /// One of this format. An absent file is one without answers.
    Answers(Vec<Answer>),
    /// One of a newer format.
    Newer { reason: String },
    /// One that is damaged or of an older format: what is wrong, and the ending under which it is kept.
    Bad { reason: String, ending: String },
}

fn parse(path: &Path) -> Result<Parsed> {
    /// What all formats share.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged = |what: String| Parsed::Bad { reason: format!("is damaged: {what}"), ending: String::from("damaged") };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Parsed::Answers(Vec::new())),
        Err(error) => return Err(failed(path, &error)),
    };
    let version = match serde_json::from_slice::<Version>(&bytes) {
        Ok(version) => version.format,
        Err(error) => return Ok(damaged(error.to_string())),
    };
    let reason = format!("has format {version} and this program reads {FORMAT}");
    Ok(match version {
        FORMAT => match serde_json::from_slice::<Contents>(&bytes) {
            Ok(contents) => Parsed::Answers(contents.answers),
            Err(error) => damaged(error.to_string()),
        },
        newer if newer > FORMAT => Parsed::Newer { reason },
        old => Parsed::Bad { reason, ending: format!("format-{old}") },
    })
}

/// Reads the file and, where it is bad, moves it aside. The caller holds the lock.
fn recover(path: &Path) -> Result<(Cache, Option<Notice>)> {
    match parse(path)? {
        Parsed::Answers(answers) => Ok((Cache { answers }, None)),
        Parsed::Newer { reason } => Err(failed(path, &reason)),
        Parsed::Bad { reason, ending } => {
            let to = files::beside(path, &ending);
            std::fs::rename(path, &to).map_err(|error| failed(path, &error))?;
            Ok((Cache::default(), Some(Notice::SetAside { reason, to })))
        }
    }
}

/// Runs `work` while no other process holds the lock of the file at `path`. The lock is on a file beside it,
/// which stays: the file itself is replaced. The system frees the lock of a process that ends.
fn with_lock<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| failed(path, &error))?;
    }
    let lock_path = files::beside(path, "lock");
    let lock = File::create(&lock_path).map_err(|error| failed(&lock_path, &error))?;
    let begun = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Err(failed(path, &"another process holds its lock")),
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path, &error)),
        }
    }
    let outcome = work();
    // Closing the file frees the lock too; nothing depends on whether this succeeds.
    let _ = lock.unlock();
    outcome
}

fn failed(path: &Path, reason: &impl fmt::Display) -> Error {
    Error::TuneCache { path: path.to_path_buf(), reason: reason.to_string() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::problem::Problem;
    use kernels::catalogue::Element;

    pub(crate) fn target() -> Target {
        Target { device: "NVIDIA H200".into(), driver: "580.95".into(), kernels: "0123456789abcdef".into() }
    }

    pub(crate) fn answer(class: &ShapeClass, kernel: Option<Kernel>, entry: &str) -> Answer {
        Answer {
            target: target(),
            class: class.to_string(),
            kernel: kernel.map(|kernel| kernel.name().to_string()),
            entry: entry.to_string(),
            band: 8,
            parts: 1,
            shape: [4096; 3],
            seconds: 1e-3,
            default_seconds: Some(1.1e-3),
            date: "2026-11-29T12:00:00Z".into(),
        }
    }

    pub(crate) fn class(m: usize, n: usize, k: usize) -> ShapeClass {
        ShapeClass::of(&Problem::new(Element::F16, m, n, k).unwrap())
    }

    const ENTRY: &str = "v3_f16_128x128x64_s2";

    #[test]
    fn answers_are_found_by_target_class_and_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folders/that/do/not/exist/tune.json");
        let here = class(4096, 4096, 4096);
        let answers = [answer(&here, Some(Kernel::V3), ENTRY), answer(&here, None, "v5_f16_128x256x64_s4")];
        assert_eq!(Cache::merge(&path, &answers).unwrap(), None);
        let (cache, notice) = Cache::read(&path).unwrap();
        assert_eq!((cache.answers().len(), notice), (2, None));
        let entry =
            |target: &Target, class: &ShapeClass, kernel| Some(cache.find(target, class, kernel)?.entry.clone());
        assert_eq!(entry(&target(), &here, Some(Kernel::V3)).as_deref(), Some(ENTRY));
        assert_eq!(entry(&target(), &here, None).as_deref(), Some("v5_f16_128x256x64_s4"));
        assert_eq!(entry(&target(), &here, Some(Kernel::V5)), None);
        assert_eq!(entry(&target(), &class(8192, 4096, 4096), Some(Kernel::V3)), None);
        for other in [
            Target { device: "NVIDIA H100".into(), ..target() },
            Target { driver: "581.1".into(), ..target() },
            Target { kernels: "0".into(), ..target() },
        ] {
            assert_eq!(entry(&other, &here, Some(Kernel::V3)), None, "{other:?}");
        }
    }

    #[test]
    fn a_new_answer_replaces_the_old_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        let (here, there) = (class(4096, 4096, 4096), class(8192, 8192, 8192));
        Cache::merge(&path, &[answer(&here, Some(Kernel::V3), ENTRY), answer(&there, Some(Kernel::V3), ENTRY)])
            .unwrap();
        Cache::merge(&path, &[answer(&here, Some(Kernel::V3), "v3_f16_128x64x64_s4")]).unwrap();
        let (cache, _) = Cache::read(&path).unwrap();
        assert_eq!(cache.answers().len(), 2);
        assert_eq!(cache.find(&target(), &here, Some(Kernel::V3)).unwrap().entry, "v3_f16_128x64x64_s4");
        assert_eq!(cache.find(&target(), &there, Some(Kernel::V3)).unwrap().entry, ENTRY);
    }

    #[test]
    fn answers_that_do_not_fit_the_catalogue_are_none() {
        let here = class(4096, 4096, 4096);
        let bad_band = Answer { band: 0, ..answer(&here, Some(Kernel::V3), ENTRY) };
        for wrong in [
            answer(&here, Some(Kernel::V3), "v3_f16_1x1x1_s1"),
            answer(&here, Some(Kernel::V5), ENTRY),
            answer(&here, Some(Kernel::V3), "v3_bf16_128x128x64_s2"),
            answer(&here, Some(Kernel::Ceiling), "ceiling_f16_128x256x64_s4_c1x1"),
            bad_band,
        ] {
            assert!(wrong.config().is_none(), "{wrong:?}");
            let kernel = Kernel::ALL.into_iter().find(|kernel| wrong.kernel.as_deref() == Some(kernel.name()));
            assert!(Cache { answers: vec![wrong] }.find(&target(), &here, kernel).is_none());
        }
    }

    #[test]
    fn damaged_and_old_files_are_set_aside() {
        let here = class(4096, 4096, 4096);
        let good = |path: &Path| {
            Cache::merge(path, &[answer(&here, Some(Kernel::V3), ENTRY)]).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        let text = good(&path);
        let old = text.replace("\"format\": 1", "\"format\": 0");
        let negative = text.replace("\"band\": 8", "\"band\": -8");
        for (bad, ending) in [
            ("", "damaged"),
            ("[]", "damaged"),
            ("{\"format\": \"x\"}", "damaged"),
            ("{\"format\": 1}", "damaged"),
            (&text[..text.len() / 2], "damaged"),
            (&negative, "damaged"),
            (&old, "format-0"),
        ] {
            std::fs::write(&path, bad).unwrap();
            let (cache, notice) = Cache::read(&path).unwrap();
            assert!(cache.answers().is_empty());
            let Some(Notice::SetAside { to, .. }) = &notice else { panic!("{notice:?} for {bad}") };
            assert_eq!(*to, folder.path().join(format!("tune.json.{ending}")));
            assert_eq!(std::fs::read_to_string(to).unwrap(), bad);
            assert!(!path.exists());
            // A writer does the same, and writes what it has.
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(
                Cache::merge(&path, &[answer(&here, Some(Kernel::V3), ENTRY)]).unwrap(),
                Some(Notice::SetAside { .. })
            ));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::write(&path, b"\xff\xfe\x00").unwrap();
        assert!(matches!(Cache::read(&path).unwrap().1, Some(Notice::SetAside { .. })));
    }

    #[test]
    fn a_newer_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        let newer = format!("{{\"format\": {}, \"what\": 1}}", FORMAT + 1);
        std::fs::write(&path, &newer).unwrap();
        let (cache, notice) = Cache::read(&path).unwrap();
        assert!(cache.answers().is_empty());
        assert!(notice.unwrap().to_string().contains("has format 2 and this program reads 1"));
        let error = Cache::merge(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("tune.json") && error.contains("format 2"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
        assert_eq!(Cache::clear(&path).unwrap(), Some(0));
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in place of the file.
        assert!(Cache::read(folder.path()).is_err());
        assert!(Cache::merge(folder.path(), &[]).is_err());
        // A file in place of the folder.
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(Cache::merge(&folder.path().join("file/tune.json"), &[]).is_err());
        assert_eq!(Cache::clear(&folder.path().join("absent.json")).unwrap(), None);
    }

    #[test]
    fn clusters_that_share_a_tile_are_kept_and_one_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        let [here, there] = [class(64, 64, 65536), class(4096, 4096, 4096)];
        let shared = Answer { parts: 7, ..answer(&here, Some(Kernel::Split), "split_f16_64x32x64_s8_k2") };
        Cache::merge(&path, &[shared.clone(), answer(&there, Some(Kernel::V3), ENTRY)]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().matches("\"parts\"").count(), 1);
        let (cache, _) = Cache::read(&path).unwrap();
        assert_eq!(cache.find(&target(), &here, Some(Kernel::Split)), Some(&shared));
        assert_eq!(cache.find(&target(), &there, Some(Kernel::V3)).unwrap().parts, 1);
        // Nothing that a kernel does not take.
        assert_eq!(Answer { parts: 0, ..shared }.config(), None);
        assert_eq!(Answer { parts: 2, ..answer(&there, Some(Kernel::V3), ENTRY) }.config(), None);
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        // Each opens the lock for itself, as processes do.
        std::thread::scope(|scope| {
            for writer in 0..8usize {
                let path = &path;
                scope.spawn(move || {
                    for turn in 0..8usize {
                        let class = class(1 << (4 + writer), 1 << (4 + turn), 64);
                        Cache::merge(path, &[answer(&class, Some(Kernel::V3), ENTRY)]).unwrap();
                        Cache::read(path).unwrap();
                    }
                });
            }
        });
        let (cache, notice) = Cache::read(&path).unwrap();
        assert_eq!((cache.answers().len(), notice), (64, None));
    }
}
