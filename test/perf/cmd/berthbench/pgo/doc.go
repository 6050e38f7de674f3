// Package pgo makes the profile that builds of berth are optimised with, cmd/berth/default.pgo, from processor profiles
// of running berths. The go command finds a file of that name beside a main package by itself, so every build of
// ./cmd/berth uses it: make build, the images, and a plain go build.
//
// The compiler reads no more of a profile than how many samples ended in each call (cmd/internal/pgo): the caller, the
// line of the call counted from the caller's first line, and the callee. So the file holds one sample of two frames for
// each such call, and only the calls that have nearly all samples. That is a tenth of what pprof would keep, small
// enough for git, and it names no machine, address or time.
//
// The profile goes stale slowly: an edge whose function was renamed or whose call has moved within its function is
// ignored. `make pgo` records it anew.
//
// Start reading at Condense.
package pgo
