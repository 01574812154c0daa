use std::thread;

use loom_async::tokio::{Mode, remote, run};
use loom_core::{CqAttr, Source, WaitObj};

use crate::tokio::{LIMIT, on_one_thread, pair};

#[test]
fn tasks_of_many_threads_call_the_thread_of_the_fabric_and_get_answers() {
    const TASKS: usize = 200;
    // Fewer slots than tasks: some requests wait.
    let (calls, mut requests) = remote::<Vec<u8>, Vec<u8>>(4);
    let fabric = thread::spawn(move || {
        on_one_thread(async {
            let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
            run((&a.driver, &b.driver), Mode::Sleep, async {
                let mut count = 0;
                while let Some(mut request) = requests.next().await {
                    let message = core::mem::take(request.body());
                    let room = vec![0; message.len()];
                    let (sent, received) = tokio::join!(
                        a.driver.run(message, |buf| a.endpoint.send(to_b, buf)),
                        b.driver.run(room, |buf| b.endpoint.recv(Source::Any, buf)),
                    );
                    sent.unwrap().result().unwrap();
                    request.answer(received.unwrap().into_buf());
                    count += 1;
                }
                count
            })
            .await
            .unwrap()
        })
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (calls, body) = (calls.clone(), number.to_le_bytes().to_vec());
            runtime.spawn(async move {
                let answer = tokio::time::timeout(LIMIT, calls.call(body.clone())).await.unwrap();
                assert_eq!(answer, Some(body));
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    drop(calls);
    assert_eq!(fabric.join().unwrap(), TASKS);
}

#[test]
fn call_to_a_thread_that_has_ended_returns_no_answer() {
    on_one_thread(async {
        let (calls, requests) = remote::<(), ()>(1);
        drop(requests);
        assert_eq!(calls.call(()).await, None);
        let (calls, mut requests) = remote::<(), ()>(0);
        let (answer, ()) = tokio::join!(calls.call(()), async {
            let request = requests.next().await.unwrap();
            assert!(!request.is_given_up());
            drop(request);
        });
        assert_eq!(answer, None);
    });
}
