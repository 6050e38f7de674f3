//go:build e2e

package labs

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// resumeWithin bounds the time without a bind after a process was killed or replaced while
	// pods arrive.
	resumeWithin = 5 * time.Second
	// scaledWithin is the same for changes that should not be noticeable, on a machine that starts processes at that
	// moment.
	scaledWithin = 2 * resumeWithin
	// operationsLimit is for blocks that start and stop processes, and for thousands of pods.
	operationsLimit = 5 * time.Minute
)

// watchBinds notes the binds of the lab's namespace from now on.
func (l *lab) watchBinds() *harness.Binds {
	l.Helper()
	l.limit = operationsLimit
	seen, err := harness.WatchBinds(l.Context(), l.client, l.namespaceName())
	l.must(err)
	return seen
}

func haKill(l *lab) {
	const burst, some = 700, 100
	seen := l.watchBinds()
	l.next()
	l.next()
	l.schedulable(60)
	for i, service := range []string{"scheduler", "binder", "queue"} {
		l.next() // the burst
		l.must(seen.Wait(l.Context(), i*burst+some, operationsLimit))
		killed := time.Now()
		l.next() // the kill
		l.must(seen.Wait(l.Context(), (i+1)*burst, operationsLimit))
		l.resumed(seen, service+" killed", killed, resumeWithin)
	}
	l.next() // berth check
}

// resumed checks that there was no long time without a bind since something happened.
func (l *lab) resumed(seen *harness.Binds, what string, since time.Time, limit time.Duration) {
	l.Helper()
	now := time.Now()
	gap, wait := seen.LongestGap(since, now), seen.LongestWait(since, now)
	l.Logf("%s: %s without a bind, %s the longest wait of a pod", what,
		gap.Round(time.Millisecond), wait.Round(time.Millisecond))
	if gap > limit {
		l.Errorf("%s: no bind for %s, want one within %s\n%s", what, gap, limit, harness.Tails(l.fleetDir()))
	}
}

func scaleShards(l *lab) {
	const many, more = 1500, 500
	seen := l.watchBinds()
	l.next()
	l.next()
	l.schedulable(300)
	l.next() // 3000 pods
	began := time.Now()
	for i := range 2 {
		l.must(seen.Wait(l.Context(), 200+400*i, operationsLimit))
		l.next() // another process
	}
	l.must(seen.Wait(l.Context(), many, operationsLimit))
	l.resumed(seen, "from one shard to four", began, scaledWithin)

	lost, won := total(l, l.next())
	l.Logf("%d of %d races lost", lost, won+lost)
	if won < many || lost*100 >= won {
		l.Errorf("%d attempts succeeded and %d lost a race, want %d and less than one in a hundred", won, lost, many)
	}
	began = time.Now()
	l.next() // back to two
	l.must(seen.Wait(l.Context(), many+more, operationsLimit))
	l.resumed(seen, "from four shards to two", began, scaledWithin)
}

// total adds up the samples that fleet.sh prints as "member: name{labels} value", of conflicts
// and of other things.
func total(l *lab, output string) (conflicts, others int) {
	l.Helper()
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			l.Fatalf("no metric: %q", line)
		}
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		l.must(err)
		if strings.Contains(line, "berth_conflicts_total") {
			conflicts += int(value)
		} else {
			others += int(value)
		}
	}
	if others == 0 {
		l.Fatalf("no attempts in %q", output)
	}
	return conflicts, others
}

func upgrade(l *lab) {
	const steady, some = 2000, 100
	seen := l.watchBinds()
	l.next()
	l.next()
	l.schedulable(60)
	l.next()
	l.must(seen.Wait(l.Context(), some, operationsLimit))
	began := time.Now()
	l.next() // replace everything
	l.must(seen.Wait(l.Context(), steady, operationsLimit))
	l.resumed(seen, "every process replaced", began, scaledWithin)
	l.next() // berth check
}
