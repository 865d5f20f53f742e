//! The files that an operator's model needs: a runtime's library may be anywhere, and may load more
//! libraries while it runs.

use std::path::{Path, PathBuf};

use super::OwnModel;

impl OwnModel {
    /// The files and folders that it needs: its own, the runtime's library and what that may load.
    /// None of them contains the gateway's data, unless the operator put a library there.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        const SYSTEM: [&str; 9] = [
            "/usr/lib",
            "/usr/lib64",
            "/usr/local/lib",
            "/lib",
            "/lib64",
            "/nix/store",
            "/etc/ld.so.cache",
            "/sys/devices/system",
            "/proc/cpuinfo",
        ];
        let variable = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
        let library = self.library.clone().or(variable);
        let library = library.and_then(|library| library.canonicalize().ok());
        let search_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = library.iter().filter_map(|library| library.parent());
        let folders = folders.map(Path::to_owned);
        let libraries = folders
            .chain(std::env::split_paths(&search_path))
            .flat_map(|folder| libraries_in(&folder));
        let system = SYSTEM.map(PathBuf::from).into_iter();
        system
            .chain([self.folder.clone()])
            .chain(self.library.clone())
            .chain(libraries)
            .collect()
    }
}

/// The libraries in a folder, which may also contain other files.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("lib") && name.contains(".so"))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(is_library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_in_a_folder_with_secrets_opens_only_libraries() {
        let data = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = data.path().canonicalize().unwrap().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let (library, second) = (file("libonnxruntime.so.1.26"), file("libonnx_providers.so"));
        file("signing.key");
        file("mediagate.db");
        let model = OwnModel {
            folder: data.path().join("models"),
            library: Some(library.clone()),
            name: String::new(),
        };
        let files = model.files();
        let mut of_data: Vec<&PathBuf> = files
            .iter()
            .filter(|path| path.starts_with(data.path()) || library.parent() == path.parent())
            .collect();
        of_data.sort();
        of_data.dedup();
        assert_eq!(of_data, [&second, &library, &model.folder]);
    }
}
