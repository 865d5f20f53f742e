//! Three gateways and a worker behind `HAProxy`, and callers who repeat themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::balancer::Balancer;
use super::client::install_tls;
use super::program::{Server, other_program, output, program};
use super::{Client, eventually};
use crate::process::{Process, free_port};

/// Gateways.
const GATEWAYS: usize = 3;

pub(crate) struct Deployment {
    pub(crate) client: Client,
    gateways: Vec<Option<Server>>,
    worker: Option<Process>,
    ports: Vec<u16>,
    old: Option<PathBuf>,
    folder: tempfile::TempDir,
    _balancer: Balancer,
}

impl Deployment {
    /// By these settings.
    pub(crate) async fn start(toml: &str) -> Self {
        Self::launch(toml, None).await
    }

    /// The same, by another program, if there is one.
    pub(crate) async fn launch(toml: &str, old: Option<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.toml"), toml).unwrap();
        let ports: Vec<u16> = (0..GATEWAYS).map(|_| free_port()).collect();
        let balancer = Balancer::before(&ports).await;
        let mut deployment = Self {
            client: Client::new(&balancer.base, None),
            gateways: Vec::new(),
            worker: None,
            ports,
            old,
            folder,
            _balancer: balancer,
        };
        for number in 0..GATEWAYS {
            let gateway = deployment.gateway(number, true).await;
            deployment.gateways.push(Some(gateway));
        }
        deployment.worker = Some(deployment.worker(true));
        let words = ["keys", "create", "--name", "load", "--rpm", "1000000"];
        let words = [&words[..], &["--max-running", "100000"]].concat();
        let key = deployment.command(&words).await;
        deployment.client.key = Some(key.trim().to_owned());
        deployment
    }

    fn config(&self) -> String {
        let file = self.folder.path().join("m.toml");
        file.to_str().unwrap().to_owned()
    }

    async fn gateway(&self, number: usize, is_old: bool) -> Server {
        let data = self.folder.path().join(number.to_string());
        let config = self.config();
        let (port, words) = (self.ports[number], ["--config", &config]);
        match self.old.as_ref().filter(|_| is_old) {
            Some(old) => Server::start_old(old, port, &data, &words).await,
            None => Server::start_at(port, &data, &words).await,
        }
    }

    fn worker(&self, is_old: bool) -> Process {
        let data = self.folder.path().join("worker");
        let config = self.config();
        let data = data.to_str().unwrap();
        let words = ["worker", "--config", &config, "--data", data];
        let mut command = match self.old.as_ref().filter(|_| is_old) {
            Some(old) => other_program(old, &words),
            None => program(&words),
        };
        Process::start(&mut command)
    }

    /// What its processes have logged.
    pub(crate) fn logs(&self) -> String {
        let gateways = self.gateways.iter().flatten().map(Server::logged);
        let worker = self.worker.iter().map(Process::logged);
        gateways.chain(worker).collect::<Vec<_>>().join("\n---\n")
    }

    /// Ends a gateway politely and starts it again, by the new program or the old one.
    pub(crate) async fn replace(&mut self, number: usize, is_old: bool) {
        let gateway = self.gateways[number].take().unwrap();
        gateway.stop().await;
        self.gateways[number] = Some(self.gateway(number, is_old).await);
    }

    /// The same with the worker.
    pub(crate) async fn replace_worker(&mut self, is_old: bool) {
        self.end_worker().await;
        self.worker = Some(self.worker(is_old));
    }

    async fn end_worker(&mut self) {
        let worker = self.worker.take().unwrap();
        worker.signal("-TERM");
        let worker = std::cell::RefCell::new(worker);
        let ended = eventually("the worker ends", async || worker.borrow_mut().ended());
        assert!(ended.await.success());
    }

    /// Runs a command on the same data; what it says.
    pub(crate) async fn command(&self, words: &[&str]) -> String {
        let (config, data) = (self.config(), self.folder.path().join("0"));
        let where_ = ["--config", &config, "--data", data.to_str().unwrap()];
        let words = [words, &where_].concat();
        let done = output(match &self.old {
            Some(old) => other_program(old, &words),
            None => program(&words),
        });
        let done = done.await;
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Ends all of them politely.
    pub(crate) async fn stop(mut self) {
        for gateway in self.gateways.drain(..).flatten() {
            gateway.stop().await;
        }
        self.end_worker().await;
    }

    /// Callers, each of whom orders one film after the other, and each film until it is told of a task.
    pub(crate) fn load(&self, callers: usize) -> Load {
        install_tls();
        let (over, told) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let mut at_work = JoinSet::new();
        for number in 0..callers {
            let caller = Caller {
                http: reqwest::Client::builder()
                    .no_proxy()
                    .timeout(Duration::from_secs(15))
                    .build()
                    .unwrap(),
                client: self.client.clone(),
                name: format!("{}-{number}", uuid::Uuid::now_v7()),
            };
            let (over, told) = (over.clone(), told.clone());
            at_work.spawn(async move { caller.order(&over, &told).await });
        }
        Load {
            over,
            told,
            callers: at_work,
        }
    }
}

struct Caller {
    http: reqwest::Client,
    client: Client,
    name: String,
}

/// What callers were told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) tasks: Vec<String>,
    /// Answers by their status; 0 where there was none.
    pub(crate) answers: BTreeMap<u16, usize>,
}

impl Caller {
    async fn order(self, over: &CancellationToken, told: &AtomicUsize) -> Told {
        let mut all = Told::default();
        for number in 0.. {
            if over.is_cancelled() {
                break;
            }
            let prompt = format!("lake-{}-{number}", self.name);
            let body = json!({"model": "film", "prompt": prompt, "seconds": "4"});
            loop {
                let url = format!("{}/v1/videos", self.client.base);
                let request = self.http.post(url).json(&body);
                let request = request.bearer_auth(self.client.key.as_ref().unwrap());
                let answer = request.header("idempotency-key", &prompt).send().await;
                let status = answer.as_ref().map_or(0, |it| it.status().as_u16());
                *all.answers.entry(status).or_default() += 1;
                match answer {
                    Ok(answer) if status == 200 => {
                        let task = answer.headers()["x-task-id"].to_str().unwrap();
                        all.tasks.push(task.to_owned());
                        told.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    Ok(answer) => {
                        let head = answer.headers().clone();
                        let said = answer.text().await.unwrap_or_default();
                        assert!(matches!(status, 502..=504), "{status}: {said}");
                        assert!(head.contains_key("retry-after"), "{status}: {said}");
                        assert_eq!(head["x-should-retry"], "true");
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        all
    }
}

/// Callers at work.
pub(crate) struct Load {
    over: CancellationToken,
    told: Arc<AtomicUsize>,
    callers: JoinSet<Told>,
}

impl Load {
    /// Waits until so many more have been told of their task.
    pub(crate) async fn more(&self, count: usize) {
        let wanted = self.told.load(Ordering::SeqCst) + count;
        eventually("orders are accepted", async || {
            (self.told.load(Ordering::SeqCst) >= wanted).then_some(())
        })
        .await;
    }

    /// What all were told, once everybody has what it ordered.
    pub(crate) async fn end(self) -> Told {
        self.over.cancel();
        let mut all = Told::default();
        for told in self.callers.join_all().await {
            all.tasks.extend(told.tasks);
            for (status, count) in told.answers {
                *all.answers.entry(status).or_default() += count;
            }
        }
        all
    }
}
