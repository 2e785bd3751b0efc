//! The file of what was typed before: whole statements, which several shells add to at once.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};

/// Statements that are kept.
const MOST: usize = 10_000;

/// Longer ones are not kept: a script that was pasted is no history.
const MOST_BYTES: usize = 64 << 10;

/// The history of all shells of this user. Only statements of a sensible length are saved.
pub(super) struct Statements(FileBackedHistory);

impl Statements {
    /// The history in its file, or in memory if there is none that can be used. What is wrong with
    /// a file that is there is said; it stays as it is.
    pub(super) fn open(path: Option<PathBuf>) -> (Statements, Option<String>) {
        let in_memory = || Statements(FileBackedHistory::default());
        let Some(path) = path else { return (in_memory(), None) };
        let opened = make_private(&path).and_then(|()| {
            FileBackedHistory::with_file(MOST, path.clone()).map_err(io::Error::other)
        });
        match opened {
            Ok(file) => (Statements(file), None),
            Err(error) => {
                let wrong = format!(
                    "the history {} cannot be used and stays as it is: {error}; what you type is \
                     remembered until you leave",
                    path.display()
                );
                (in_memory(), Some(wrong).filter(|_| path.exists()))
            }
        }
    }
}

/// Where the history is: `$STY_HISTORY`, else below the XDG directory of state.
pub(super) fn path(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("STY_HISTORY") {
        return Some(path).filter(|path| !path.is_empty()).map(PathBuf::from);
    }
    let state = set("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
    Some(state?.join("sty/history"))
}

/// Makes the file, which only its owner may read: statements may hold what others must not know.
fn make_private(path: &PathBuf) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match OpenOptions::new().create_new(true).append(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // What is there keeps its mode, and a device is no history.
            let found = std::fs::metadata(path)?;
            if found.is_file() { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
        }
        made => made.map(|_| ()),
    }
}

impl History for Statements {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        let is_kept = item.command_line.len() <= MOST_BYTES && !item.command_line.trim().is_empty();
        if !is_kept {
            return Ok(item);
        }
        let saved = self.0.save(item)?;
        // At once, so that nothing is lost however the shell ends.
        self.0.sync()?;
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use reedline::SearchDirection;

    use super::*;

    fn typed(history: &Statements) -> Vec<String> {
        let all = SearchQuery::everything(SearchDirection::Forward, None);
        history.search(all).unwrap().into_iter().map(|item| item.command_line).collect()
    }

    #[test]
    fn several_shells_add_to_one_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/sty/history");
        let (mut one, _) = Statements::open(Some(path.clone()));
        let (mut two, _) = Statements::open(Some(path.clone()));
        let save = |history: &mut Statements, text: &str| {
            history.save(HistoryItem::from_command_line(text)).unwrap();
        };
        save(&mut one, "SELECT 1\nFROM t;");
        save(&mut two, "SELECT 2;");
        save(&mut one, "SELECT 3;");
        save(&mut one, &"x".repeat(MOST_BYTES + 1));
        save(&mut one, "  ");
        drop(one);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let (after, wrong) = Statements::open(Some(path));
        assert_eq!(wrong, None);
        assert_eq!(typed(&after), ["SELECT 1\nFROM t;", "SELECT 2;", "SELECT 3;"]);
    }

    #[test]
    fn without_a_file_the_history_is_in_memory() {
        let (mut history, wrong) = Statements::open(Some("/proc/no/such/history".into()));
        history.save(HistoryItem::from_command_line("SELECT 1;")).unwrap();
        assert_eq!((typed(&history), wrong), (vec!["SELECT 1;".to_owned()], None));
        assert!(typed(&Statements::open(None).0).is_empty());
    }

    #[test]
    fn a_file_that_is_no_history_is_told_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let mut file = std::fs::File::create_new(&path).unwrap();
        io::Write::write_all(&mut file, b"SELECT 1;\nSELECT '\xff';\n").unwrap();
        let (mut history, wrong) = Statements::open(Some(path.clone()));
        let wrong = wrong.unwrap();
        assert!(wrong.contains("history cannot be used") && wrong.contains("UTF-8"), "{wrong}");
        history.save(HistoryItem::from_command_line("SELECT 2;")).unwrap();
        drop(history);
        assert_eq!(std::fs::read(&path).unwrap(), b"SELECT 1;\nSELECT '\xff';\n");
        assert!(Statements::open(Some(directory.path().into())).1.is_some());
    }

    #[test]
    fn the_file_is_where_xdg_says() {
        let find = |set: &'static [(&str, &str)]| {
            path(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(find(&[("HOME", "/h")]), Some("/h/.local/state/sty/history".into()));
        assert_eq!(
            find(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]),
            Some("/s/sty/history".into())
        );
        assert_eq!(find(&[("STY_HISTORY", "/x"), ("HOME", "/h")]), Some("/x".into()));
        assert_eq!(find(&[("STY_HISTORY", ""), ("HOME", "/h")]), None);
        assert_eq!(find(&[]), None);
    }
}
