//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// awayFor is how long a dependency is away: longer than the leases of members last.
	awayFor = 15 * time.Second
	// noticedWithin bounds the time until every process that needs it reports the outage.
	noticedWithin = 30 * time.Second
	// waiting are the pods that come while it is away.
	waiting = 60
)

// outage is a dependency that becomes unavailable.
type outage struct {
	// name is the dependency's name on /readyz and in the logs.
	name     string
	services []string
	down, up func() error
}

// Each dependency may be unavailable for longer than leases last: every process continues, reports the missing
// dependency once in its log and, as long as the outage lasts, on /readyz, reports its return once, and the pods that
// came in the meantime are placed.
func TestOutages(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	etcd, err := programs.StartEtcd(t.Context(), filepath.Join(s.dir, "etcd"), 1)
	s.must(err)
	kit.AtEnd(t, etcd.Stop)
	nats, err := programs.StartNATS(t.Context(), filepath.Join(s.dir, "nats"), 1)
	s.must(err)
	kit.AtEnd(t, nats.Stop)
	s.record(etcd.URLs[0], harness.HistoryConfig{Etcd: etcd.URLs[0]})
	f := newFleetOn(s, etcd.URLs[0], nats.URLs[0])
	first := s.namespace("first")
	s.create(newPods(first, "pod", waiting, "100m")...)
	s.bound(first, waiting, placedWithin)

	allServices := []string{"queue", "scheduler", "binder"}
	member := func(m *harness.Members) (down, up func() error) {
		return func() error { m.Kill(0); return nil }, func() error { return m.Start(0) }
	}
	outages := []outage{
		{name: "ledger (etcd)", services: allServices},
		{name: "log (NATS)", services: allServices},
		{
			name: "Kubernetes API", services: []string{"queue", "binder"},
			down: func() error { return s.cluster.Signal("kube-apiserver", syscall.SIGSTOP) },
			up:   func() error { return s.cluster.Signal("kube-apiserver", syscall.SIGCONT) },
		},
	}
	outages[0].down, outages[0].up = member(etcd)
	outages[1].down, outages[1].up = member(nats)
	for i, o := range outages {
		t.Run(o.name, func(t *testing.T) { f.on(t).outage(o, fmt.Sprintf("pods-%d", i)) })
	}
	f.checkLogs(outages)
	s.audit()
}

// on is the fleet in a subtest.
func (f *fleet) on(t *testing.T) *fleet {
	s := *f.stack
	s.T = t
	g := *f
	g.stack = &s
	return &g
}

func (f *fleet) outage(o outage, ns string) {
	f.Helper()
	f.namespace(ns)
	f.must(o.down())
	away := time.Now()
	if o.name != "Kubernetes API" {
		f.create(newPods(ns, "pod", waiting, "100m")...)
	}
	f.eventually(noticedWithin, "everybody who needs it misses "+o.name, func(ctx context.Context) (string, error) {
		return f.readiness(ctx, o, "[-]"+o.name)
	})
	f.eventually(awayFor+noticedWithin, "enough time passes", func(ctx context.Context) (string, error) {
		missing, err := f.readiness(ctx, o, "[-]"+o.name)
		if err != nil || missing != "" {
			return "", errors.Join(err, errors.New(missing))
		}
		if left := awayFor - time.Since(away); left > 0 {
			return left.String(), nil
		}
		return "", nil
	})
	f.must(o.up())
	if o.name == "Kubernetes API" {
		f.create(newPods(ns, "pod", waiting, "100m")...)
	}
	back := time.Now()
	f.bound(ns, waiting, recoveredWithin)
	f.Logf("%s was away for %s; the pods were bound %s after it was back",
		o.name, back.Sub(away).Round(time.Second), time.Since(back).Round(100*time.Millisecond))
	f.eventually(recoveredWithin, "everybody is ready again", func(ctx context.Context) (string, error) {
		return f.readiness(ctx, outage{services: []string{"queue", "scheduler", "binder"}}, "[+]ping")
	})
}

// readiness returns a process of an outage's services whose /readyz lacks a word. A process that has ended is an
// error; being ready is demanded of all when the outage has no name.
func (f *fleet) readiness(ctx context.Context, o outage, part string) (missing string, err error) {
	for name, member := range f.members {
		service, _, _ := strings.Cut(name, "-")
		if err := member.Ended(); err != nil {
			return "", err
		}
		if !strings.Contains(strings.Join(o.services, " "), service) {
			continue
		}
		text, err := member.Ready(ctx)
		if !strings.Contains(text, part) || o.name == "" && err != nil {
			return fmt.Sprintf("%s says %q", name, text), nil
		}
	}
	return "", nil
}

// checkLogs demands one line for each change in each log, and no flood of other lines.
func (f *fleet) checkLogs(outages []outage) {
	f.Helper()
	const flood = 60
	for name, member := range f.members {
		service, _, _ := strings.Cut(name, "-")
		text, err := os.ReadFile(member.Log)
		f.must(err)
		for _, o := range outages {
			want := 0
			if strings.Contains(strings.Join(o.services, " "), service) {
				want = 1
			}
			gone := strings.Count(string(text), fmt.Sprintf("until it answers\" dependency=%q", o.name))
			back := strings.Count(string(text), fmt.Sprintf("is back\" dependency=%q", o.name))
			if gone != want || back != want {
				f.Errorf("%s: %d lines say that %s is missing, %d that it is back; want %d of each", name, gone, o.name, back, want)
			}
		}
		if n := strings.Count(string(text), "level=WARN") + strings.Count(string(text), "level=ERROR"); n > flood {
			f.Errorf("%s: %d warnings and errors for three outages, want at most %d", name, n, flood)
		} else {
			f.Logf("%s: %d warnings and errors", name, n)
		}
	}
}

// The number of shards may change at any time: new ones join in the middle of a burst, old ones
// leave, and one is left in the end. Nothing is lost, nothing placed twice.
func TestShardsChangeInTheMiddleOfABurst(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	ns := s.namespace("more")
	created := s.burst(ns)
	s.bound(ns, some, placedWithin)
	f.start("scheduler", "scheduler-2", "--shards", "3")
	s.must(f.members["scheduler-0"].Stop(t.Context()))
	created()
	s.bound(ns, burst, recoveredWithin)

	fewer := s.namespace("fewer")
	created = s.burst(fewer)
	s.bound(fewer, some, placedWithin)
	s.must(f.members["scheduler-2"].Stop(t.Context()))
	created()
	s.bound(fewer, burst, recoveredWithin)
	s.boundAtMostOnce(ns)
	s.boundAtMostOnce(fewer)
	s.audit()
}
