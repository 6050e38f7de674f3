//go:build e2e

package labs

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// recordedWithin bounds how far the ledger's history may be behind the decisions in the log.
const recordedWithin = 10 * time.Second

// showsSoon runs the README's next block until it prints something: records are a moment behind.
func (l *lab) showsSoon(want string) {
	l.Helper()
	left := l.left
	l.eventually(recordedWithin, "the README's command shows "+want, func(context.Context) (string, error) {
		l.left = left
		if got := blank.ReplaceAllString(l.next(), " "); !strings.Contains(got, want) {
			return fmt.Sprintf("it shows\n%s", got), nil
		}
		return "", nil
	})
}

// shows runs the README's next block and checks its output, ignoring blanks.
func (l *lab) shows(want ...string) {
	l.Helper()
	got := blank.ReplaceAllString(l.next(), " ")
	for _, text := range want {
		if !strings.Contains(got, text) {
			l.Errorf("the README's command shows\n%s\nwant %q in it", got, text)
		}
	}
}

var blank = regexp.MustCompile(`[ \t]+`)

func explained(l *lab) {
	const full = "Insufficient cpu"
	l.next()
	l.schedulable(3)
	l.next()
	l.bound(labelled("app=small"), 2)
	l.pending(named("wide"), 1, "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
	l.shows("in pool parked", "NodeResourcesFit: AssignedPodDelete", "2 NodeResourcesFit: "+full,
		"taint dedicated=batch:NoSchedule", "lacks 1 cpu (requests 3, 2 free)", "try 1 unplaceable")
	l.shows("state: bound, on node explain-", "chosen: explain-", "rejected: 1 TaintToleration", "TOTAL")
	l.next()
	l.node("urgent")
	l.shows("state: gone", "evicted: by preemption, for pod "+l.namespaceName()+"/urgent")
	l.shows("reservation", l.namespaceName()+"/urgent")
	l.next()
	l.node("wide")
	l.shows("state: bound, on node explain-large")
}

func traced(l *lab) {
	l.next()
	l.schedulable(1)
	l.next()
	l.pending(named("traveller"), 1, "0/1 nodes are available: 1 Insufficient cpu.")
	l.next()
	l.node("traveller")
	l.shows("seen", "queued", "attempt", "parked", "by NodeResourcesFit", "AssignedPodDelete", "filter", "score",
		"reserve", "bind", "placed on trace-0")
}

func replayed(l *lab) {
	const same = " identical, 0 different (0 of them explained), 0 not reproducible"
	l.next()
	l.schedulable(3)
	l.next()
	l.bound(labelled("app=web"), 2)
	l.pending(named("large"), 1, "0/3 nodes are available: 3 Insufficient cpu.")
	l.showsSoon(same)
	l.shows("FACTS 1 to ", "DECISIONS 1 to ", "LEDGER 1 to ")
	l.shows(same)
	l.shows("different, explained", "decided with a different configuration of profile default-scheduler")
	l.shows("drained node replay-0", "EVICTED", "REPLACES ONE ON", "1 node(s) didn't match pod anti-affinity rules")
	l.shows("added node replay-large", l.namespaceName()+"/large replay-large")
}
