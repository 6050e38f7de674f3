package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is one thing that breaks, from Begin on, for For.
type fault struct {
	kind  faultKind
	begin time.Duration
	lasts time.Duration
	// target is a service's name, or the number of a store's member.
	target string
	member int
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
)

// kinds with how often each is picked.
var kinds = []struct {
	kind   faultKind
	weight int
}{
	{kill, 5}, {pause, 4}, {killEtcd, 1}, {killLeader, 2}, {pauseEtcd, 1}, {killNATS, 2}, {pauseNATS, 1},
	{pauseAPI, 1}, {cut, 3}, {swallow, 2}, {loseAnswer, 4}, {slow, 2},
}

const (
	// A fault begins this long after the one before; lasting longer, it overlaps with the next.
	minGap, maxGap = 2 * time.Second, 7 * time.Second
	// A fault of a service or its connections lasts this long: the longest are beyond the leases of
	// members, which are ten seconds.
	minLast, maxLast = time.Second, 16 * time.Second
	// A store's member is away for less: two members away are no quorum, which is an outage.
	maxMemberLast = 4 * time.Second
	// calm is how long before the end the last fault begins.
	calm = 3 * time.Second
)

// services are the processes under test; a scheduler has no connection to the API server.
var services = []string{"queue-0", "queue-1", "scheduler-0", "scheduler-1", "binder-0", "binder-1"}

// links of a service, by its kind.
var links = map[string][]string{
	"queue": {"api", "etcd", "nats"}, "scheduler": {"etcd", "nats"}, "binder": {"api", "etcd", "nats"},
}

// plan is what breaks within a time: a function of the seed alone.
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
	for at := between(minGap, maxGap); at < within-calm; at += between(minGap, maxGap) {
		f := fault{
			begin: at, lasts: between(minLast, maxLast), target: services[rng.IntN(len(services))], member: rng.IntN(3),
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
		if f.ofStore() {
			f.lasts = between(minLast, maxMemberLast)
		}
		out = append(out, f)
	}
	return out
}

// ofStore says whether the fault is one of a store, or of the API server, as a whole.
func (f fault) ofStore() bool {
	switch f.kind {
	case killEtcd, killLeader, pauseEtcd, killNATS, pauseNATS, pauseAPI:
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
	case cut, swallow, loseAnswer, slow:
		what += fmt.Sprintf(" %s -> %s", f.target, f.link)
	}
	return fmt.Sprintf("%7.2fs  %s, for %.2fs", f.begin.Seconds(), what, f.lasts.Seconds())
}
