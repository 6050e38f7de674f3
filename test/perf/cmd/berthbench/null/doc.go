// Package null is a null path: a program that does for a pod what any scheduler with a log and a ledger must do, and
// no scheduling. `berthbench path --null` starts it in place of Berth, on the same stores and the same sink, and
// compares the processor time of a pod. It:
//
//   - writes as many bytes into the log as Berth does, as one message for 24 pods in each of two streams: facts and
//     decisions;
//   - reads these bytes as often as Berth's processes do, on as many connections, and only counts them;
//   - makes one etcd transaction for 24 pods, which compares and writes a document for each;
//   - posts one bind and one event for each pod to the sink, with a plain HTTP client.
//
// It does not watch the API server (names of pods are arguments), does not watch etcd, and never decodes. Pods take
// these steps in the order of a scheduler: read, reserved, decided, bound.
//
// The program prints "ready" after the warm-up, waits for a line, places the pods, prints "done", and ends when its
// input does. Start reading at path.pass.
package null
