//! A bucket of an S3-compatible store on loopback, whose network and answers the test can spoil.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use mediagate_config::{Config, MediaSettings, Settings};
use mediagate_media::blob::BlobStore;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use simulator::FaultProxy;
use tokio::net::TcpListener;

const BUCKET: &str = "films";
pub(crate) const ACCESS_KEY: &str = "AKIDTEST";
pub(crate) const SECRET_KEY: &str = "hunter2hunter2";

pub(crate) struct TestBucket {
    pub(crate) proxy: FaultProxy,
    pub(crate) folder: tempfile::TempDir,
    behavior: Arc<StoreBehavior>,
}

/// How the store misbehaves, and a count of its requests.
#[derive(Default)]
struct StoreBehavior {
    /// Requests fail whose method and query contain this.
    failing: Mutex<Option<String>>,
    /// Requests that arrived, by method and kind of query.
    request_counts: Mutex<BTreeMap<String, usize>>,
}

impl TestBucket {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let files = s3s_fs::FileSystem::new(folder.path()).unwrap();
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let behavior = Arc::new(StoreBehavior::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler_behavior = behavior.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (service, behavior) = (service.clone(), handler_behavior.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        let (service, behavior) = (service.clone(), behavior.clone());
                        async move { Ok::<_, Infallible>(answer(&service, &behavior, request).await) }
                    });
                    // A connection that breaks is the test's doing.
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(socket), answer)
                        .await;
                });
            }
        });
        Self {
            proxy: FaultProxy::start(address).await.unwrap(),
            folder,
            behavior,
        }
    }

    /// The settings of a gateway that keeps its media here.
    pub(crate) fn set(&self, settings: &mut Settings) {
        self.set_access(settings);
        settings.media.store = Some(Self::address());
    }

    /// The bucket's name in the settings.
    pub(crate) fn address() -> String {
        format!("s3://{BUCKET}/some/media")
    }

    /// The settings by which a gateway that keeps its media elsewhere reaches the bucket.
    pub(crate) fn set_access(&self, settings: &mut Settings) {
        let media = &mut settings.media;
        media.endpoint = Some(format!("http://{}", self.proxy.address()).parse().unwrap());
        media.access_key = Some(ACCESS_KEY.parse().unwrap());
        media.secret_key = Some(SECRET_KEY.parse().unwrap());
    }

    /// The store without a gateway.
    pub(crate) fn blobs(&self) -> BlobStore {
        self.blobs_with_secret(SECRET_KEY)
    }

    /// Like [`Self::blobs`], with this secret.
    pub(crate) fn blobs_with_secret(&self, secret: &str) -> BlobStore {
        self.blobs_with(|media| media.secret_key = Some(secret.parse().unwrap()))
    }

    /// Like [`Self::blobs`], with the settings that `change` makes.
    pub(crate) fn blobs_with(&self, change: impl FnOnce(&mut MediaSettings)) -> BlobStore {
        let mut settings = Settings::default();
        self.set(&mut settings);
        change(&mut settings.media);
        let config = Config::load(&settings).unwrap();
        BlobStore::open(&config.media, Path::new("/nowhere")).unwrap()
    }

    /// From now on requests whose method and query contain `pattern` get a 500; all of them, if it
    /// is empty.
    pub(crate) fn fail(&self, pattern: &str) {
        *self.behavior.failing.lock().unwrap() = Some(pattern.to_owned());
    }

    /// Makes the store answer again.
    pub(crate) fn heal(&self) {
        *self.behavior.failing.lock().unwrap() = None;
        self.proxy.heal();
    }

    /// Requests so far of this method and kind of query.
    pub(crate) fn request_count(&self, request: &str) -> usize {
        let counts = self.behavior.request_counts.lock().unwrap();
        counts.get(request).copied().unwrap_or(0)
    }

    /// The names of the files in the bucket, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let root = self.folder.path().join(BUCKET);
        let mut names = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap();
                    names.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        names.sort();
        names
    }

    /// Multipart uploads that nobody completed or aborted.
    pub(crate) fn unfinished_uploads(&self) -> usize {
        let names = std::fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".upload")).count()
    }
}

async fn answer(
    service: &S3Service,
    behavior: &StoreBehavior,
    request: Request<Incoming>,
) -> Response<s3s::Body> {
    let query = request.uri().query().unwrap_or_default();
    let kind = ["uploads", "partNumber", "uploadId", "list-type", "delete"];
    let kind = kind.iter().find(|kind| query.contains(*kind));
    let request_kind = format!("{} {}", request.method(), kind.unwrap_or(&""));
    let request_kind = request_kind.trim_end().to_owned();
    let failing = behavior.failing.lock().unwrap().clone();
    let failing = failing.is_some_and(|pattern| request_kind.contains(&pattern));
    *behavior
        .request_counts
        .lock()
        .unwrap()
        .entry(request_kind)
        .or_default() += 1;
    let encrypted = request.headers().get("x-amz-server-side-encryption");
    if let Some(algorithm) = encrypted.and_then(|algorithm| algorithm.to_str().ok()) {
        let request_kind = format!("{} {algorithm}", request.method());
        *behavior
            .request_counts
            .lock()
            .unwrap()
            .entry(request_kind)
            .or_default() += 1;
    }
    if failing {
        let mut failed = Response::new(s3s::Body::empty());
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return failed;
    }
    let answer = hyper::service::Service::call(service, request).await;
    answer.unwrap_or_else(|error| panic!("the store: {error:?}"))
}
