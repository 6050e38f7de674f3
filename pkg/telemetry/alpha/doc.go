// Package alpha has the metrics of kube-scheduler with the level ALPHA that dashboards use, for what Berth has too: the
// queue's events, the binders' calls, and what binders wait for. docs/observing.md lists those that have no meaning
// here.
//
// It follows the rules of package telemetry, which registers these metrics together with its own.
//
// Start reading at CallSent.
package alpha
