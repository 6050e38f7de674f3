// Package conformance compares pkg/placement with kube-scheduler's own plugins: the same
// random clusters and pods go to both, and feasible nodes, scores per plugin, totals,
// status codes, reasons and the final message must be equal. So must be what wakes a
// rejected pod: the same changes go to upstream's queueing hints and to Profile.Wakes.
//
// Start reading at TestPlacement and TestHints (the loops), then oracle (upstream) and
// generator (the input, biased to the edges where the two could differ). A run prints how
// often each plugin rejected and ranked, and fails if those that look at the whole cluster
// hardly did. Where ours differs from upstream on purpose, exceptions_test.go says so and
// shows both answers.
//
// Profiles evaluate rules beyond one node (EvaluateCrossNode): upstream knows nothing else.
//
// It is a module of its own outside the workspace (GOWORK=off): it needs k8s.io/kubernetes,
// whose versions must not decide those of the product. A cold build takes minutes.
//
//	GOWORK=off go test ./... -args -comparisons=20000
//	GOWORK=off go test ./... -args -seed=123 -comparisons=1   replays what a failure printed
package conformance
