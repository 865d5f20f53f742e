//! Through `PgBouncer` in session mode.

use std::process::{Child, Stdio};

use crate::support::cluster::{find, stop, unprivileged, unprivileged_folder};
use crate::support::postgres::TestDatabase;
use crate::support::{TestGateway, eventually, videos_order};

struct Pooler {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Pooler {
    async fn before(database: &str) -> Self {
        let server = url::Url::parse(database).unwrap();
        let folder = unprivileged_folder();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let users = folder.path().join("users");
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = session\ndefault_pool_size = 40\n",
            server.host_str().unwrap(),
            server.port().unwrap_or(5432),
            users.display(),
        );
        std::fs::write(&settings, text).unwrap();
        let program =
            find("pgbouncer").expect("PgBouncer is not installed; ./scripts/test installs it");
        let mut command = unprivileged(program);
        let command = command.arg("--quiet").arg(&settings).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("the pooler listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
        })
        .await;
        let mut url = server;
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
        Self {
            child,
            url: url.into(),
            _folder: folder,
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_not_noticed() {
    let database = TestDatabase::create().await;
    let pooler = Pooler::before(&database.url).await;
    let url = pooler.url.parse().unwrap();
    let builder = TestGateway::builder().set(|settings| settings.database = Some(url));
    let gateway = builder.start().await;
    let order = videos_order();
    let orders = (0..6).map(|_| gateway.post("/v1/videos", &order));
    let answers = futures_util::future::join_all(orders).await;
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let task = answer.header("x-task-id").unwrap();
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    assert_eq!(gateway.get("/readyz").await.status, 200);
    gateway.stop().await;
}
