package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is one thing that breaks, from Begin on, for For.
type fault struct {
	kind  faultKind
	begin time.Duration
	lasts time.Duration
	// target is a service's name, member the number of a store's member, node that of a node.
	target       string
	member, node int
	// link is the dependency whose connections are meant.
	link string
}

type faultKind string

const (
	kill       faultKind = "kill -9"
	pause      faultKind = "pause"
	killEtcd   faultKind = "kill -9 etcd member"
	killLeader faultKind = "kill -9 etcd leader"
	pauseEtcd  faultKind = "pause etcd member"
	killNATS   faultKind = "kill -9 NATS server"
	pauseNATS  faultKind = "pause NATS server"
	pauseAPI   faultKind = "pause kube-apiserver"
	cut        faultKind = "cut"
	swallow    faultKind = "swallow"
	loseAnswer faultKind = "lose answers of"
	slow       faultKind = "slow"
	// registerAgain deletes a node; in the end it is created again, another one under the same name.
	registerAgain faultKind = "register again"
	// A record that cannot be decoded appears in a stream.
	poisonFacts     faultKind = "poison the facts"
	poisonDecisions faultKind = "poison the decisions"
	// All members of the etcd are stopped for a moment, and their data is copied; or they are stopped and started
	// again on that copy.
	backUp  faultKind = "back the ledger up"
	restore faultKind = "restore the ledger"
)

// kinds with how often each is picked.
var kinds = []struct {
	kind   faultKind
	weight int
}{
	{kill, 5}, {pause, 4}, {killEtcd, 1}, {killLeader, 2}, {pauseEtcd, 1}, {killNATS, 2}, {pauseNATS, 1},
	{pauseAPI, 1}, {cut, 3}, {swallow, 2}, {loseAnswer, 4}, {slow, 2},
	{registerAgain, 4}, {poisonFacts, 1}, {poisonDecisions, 1},
}

const (
	// A fault begins this long after the one before; lasting longer, it overlaps with the next.
	minGap, maxGap = 2 * time.Second, 7 * time.Second
	// A fault of a service or its connections lasts this long: the longest are beyond the leases of
	// members, which are four seconds.
	minLast, maxLast = time.Second, 16 * time.Second
	// A store's member is away for less: two members away are no quorum, which is an outage.
	maxMemberLast = 4 * time.Second
	// quietEnd is how long before the end the last fault begins.
	quietEnd = 3 * time.Second
	// restoresFrom is how long a run must last at least for its ledger to be restored: the ledger stays
	// closed for half a minute after that.
	restoresFrom = 80 * time.Second
	// nodeCount is how many nodes there are, demo-0000 and so on.
	nodeCount = 60
)

// services are the processes under test; a scheduler has no connection to the API server.
var services = []string{"queue-0", "queue-1", "scheduler-0", "scheduler-1", "binder-0", "binder-1"}

// links of a service, by its kind.
var links = map[string][]string{
	"queue": {"api", "etcd", "nats"}, "scheduler": {"etcd", "nats"}, "binder": {"api", "etcd", "nats"},
}

// plan returns the faults within a time: a function of the seed alone.
func plan(seed uint64, within time.Duration) []fault {
	rng := rand.New(rand.NewPCG(seed, seed))
	between := func(lo, hi time.Duration) time.Duration {
		return (lo + time.Duration(rng.Int64N(int64(hi-lo)))).Round(10 * time.Millisecond)
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	var out []fault
	for at := between(minGap, maxGap); at < within-quietEnd; at += between(minGap, maxGap) {
		f := fault{
			begin: at, lasts: between(minLast, maxLast), target: services[rng.IntN(len(services))], member: rng.IntN(3),
			node: rng.IntN(nodeCount),
		}
		dice := rng.IntN(total)
		for _, k := range kinds {
			if f.kind = k.kind; dice < k.weight {
				break
			}
			dice -= k.weight
		}
		all := links[serviceOf(f.target)]
		f.link = all[rng.IntN(len(all))]
		if f.ofStore() || f.kind == registerAgain {
			f.lasts = between(minLast, maxMemberLast)
		}
		out = append(out, f)
	}
	if within >= restoresFrom {
		out = append(out, fault{kind: backUp, begin: within / 5}, fault{kind: restore, begin: within * 2 / 5})
	}
	slices.SortStableFunc(out, func(a, b fault) int { return cmp.Compare(a.begin, b.begin) })
	return out
}

// ofStore reports whether the fault is one of a store, or of the API server, as a whole.
func (f fault) ofStore() bool {
	switch f.kind {
	case killEtcd, killLeader, pauseEtcd, killNATS, pauseNATS, pauseAPI, backUp, restore:
		return true
	}
	return false
}

// String is the line that is printed when it happens.
func (f fault) String() string {
	what := string(f.kind)
	switch f.kind {
	case kill, pause:
		what += " " + f.target
	case killEtcd, pauseEtcd, killNATS, pauseNATS:
		what += fmt.Sprintf(" %d", f.member)
	case registerAgain:
		what += " " + nodeName(f.node)
	case cut, swallow, loseAnswer, slow:
		what += fmt.Sprintf(" %s -> %s", f.target, f.link)
	}
	return fmt.Sprintf("%7.2fs  %s, for %.2fs", f.begin.Seconds(), what, f.lasts.Seconds())
}

// nodeName is the name of a node of the demonstration.
func nodeName(n int) string { return fmt.Sprintf("demo-%04d", n) }
