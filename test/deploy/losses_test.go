//go:build e2e

package deploy_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// podEvery is how far apart pods arrive while members are lost.
	podEvery = 60 * time.Millisecond
	// beforeLoss is how many pods have to be bound before a loss, afterLoss how many after it, and
	// lostFor how long the member is away at least.
	beforeLoss, afterLoss = 20, 100
	lostFor               = 10 * time.Second
	// resumeWithin bounds the time without a bind after any one member was lost, but for these:
	resumeWithin = 5 * time.Second
	// electWithin is for servers of NATS that disappear without a shutdown: without a leader of a stream, the others
	// elect one after 4 to 9 s, which cannot be configured, and clients have to learn of it.
	electWithin = 12 * time.Second
)

// loss is the loss of one member, and its kind.
type loss struct {
	member, how string
}

const (
	// killed is the death of a machine or process; stopped is a kubelet's request, at a rollout or when its node is
	// drained.
	killed  = "is killed"
	stopped = "is stopped"
	// hangs is for members that stop where they are and keep their connections, as behind a network
	// that takes packets and delivers none.
	hangs = "hangs"
)

func (l loss) String() string { return l.member + " " + l.how }

// limit is how long there may be no bind.
func (l loss) limit() time.Duration {
	if l.how != stopped && strings.HasPrefix(l.member, "nats") {
		return electWithin
	}
	return resumeWithin
}

// lost are all members of the stores, in each way, and one of each service, killed.
func lost() (all []loss) {
	for _, how := range []string{killed, stopped, hangs} {
		for n := range storeMembers {
			all = append(all, loss{fmt.Sprintf("etcd-%d", n), how}, loss{fmt.Sprintf("nats-%d", n), how})
		}
	}
	for _, member := range []string{"queue-0", "scheduler-1", "binder-0", "descheduler-0"} {
		all = append(all, loss{member, killed})
	}
	return all
}

// losses keeps pods arriving, and loses one member after the other: binds continue within seconds, and no pod is
// forgotten or bound twice. Each member is back before the next is lost.
func (s *system) losses(t *testing.T, members map[string]*member) {
	const ns = "losses"
	s.create(&corev1.Namespace{ObjectMeta: named(ns)})
	seen, err := harness.WatchBinds(s.Context(), s.client, ns)
	s.must(err)
	stop := s.arrivals(ns)
	for _, one := range lost() {
		t.Run(one.String(), func(t *testing.T) {
			s.waitForBinds(seen, beforeLoss)
			began := time.Now()
			back := s.lose(one, members)
			s.waitForBinds(seen, afterLoss)
			s.eventually(placedWithin, "time passes", func(context.Context) (string, error) {
				return map[bool]string{true: "not yet"}[time.Since(began) < lostFor], nil
			})
			gap, wait := seen.LongestGap(began, time.Now()), seen.LongestWait(began, time.Now())
			back()
			t.Logf("%s without a bind, %s the longest wait of a pod",
				gap.Round(time.Millisecond), wait.Round(time.Millisecond))
			if limit := one.limit(); gap > limit {
				t.Errorf("no bind for %s, want one within %s", gap, limit)
			}
		})
	}
	n := stop()
	s.must(seen.Wait(t.Context(), n, placedWithin))
	t.Logf("%d pods", n)
}

// waitForBinds waits until so many more pods have been bound.
func (s *system) waitForBinds(seen *harness.Binds, pods int) {
	s.Helper()
	count, err := seen.Count()
	s.must(err)
	s.must(seen.Wait(s.Context(), count+pods, placedWithin))
}

// arrivals creates pods until the function that it returns is called, which returns their number.
func (s *system) arrivals(ns string) (stop func() int) {
	var arrived atomic.Int64
	ctx, cancel := context.WithCancel(s.Context())
	group := &errgroup.Group{}
	group.Go(func() error {
		tick := time.NewTicker(podEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", arrived.Add(1))}, Spec: template("pod", "10m").Spec,
			}
			if _, err := s.client.CoreV1().Pods(ns).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	})
	return func() int {
		cancel()
		s.must(group.Wait())
		return int(arrived.Load())
	}
}

// lose makes a member fail and returns the function that brings it back.
func (s *system) lose(l loss, members map[string]*member) (back func()) {
	s.Helper()
	service, number, _ := strings.Cut(l.member, "-")
	store := service == "etcd" || service == "nats"
	var process *harness.Process
	if store {
		process = s.stores.running[l.member]
	} else {
		process = members[l.member].Process
	}
	switch l.how {
	case hangs:
		s.must(process.Signal(syscall.SIGSTOP))
		return func() { s.must(process.Signal(syscall.SIGCONT)) }
	case stopped:
		s.must(process.Signal(syscall.SIGTERM))
		<-process.Done()
	case killed:
		process.Kill()
	}
	if !store {
		// At debug, so that noSecrets sees the most verbose log.
		return func() { members[l.member] = s.start(service, l.member+"-again", "--log-level=debug") }
	}
	return func() {
		var n int
		_, err := fmt.Sscan(number, &n)
		s.must(err)
		s.stores.startMember(service, n)
		s.stores.ready(service, n)
	}
}

// refusals are messages of a store or the API server to a client that lacks a right.
var refusals = []string{
	"permission denied", "Permissions Violation", "forbidden", "Unauthorized", "Authorization Violation",
}

// noRefusals reads the members' logs: a missing right may cost only time, and would not be noticed otherwise.
func (s *system) noRefusals(t *testing.T, members map[string]*member) {
	for name, m := range members {
		raw, err := os.ReadFile(m.Log)
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(raw)) {
			if refused(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func refused(line string) bool {
	return slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(line, refusal) })
}

// noSecrets: no log has a service account's token or a private key in it, those at debug included.
func (s *system) noSecrets(t *testing.T) {
	secrets := map[string]string{}
	for _, pattern := range []string{"*.kubeconfig", "certs/*/tls.key", "certs/ca.key"} {
		files, err := filepath.Glob(filepath.Join(s.dir, pattern))
		s.must(err)
		if len(files) == 0 {
			t.Errorf("no secrets are in %s", pattern)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			s.must(err)
			_, token, _ := strings.Cut(string(raw), "token: ") // of a key there is nothing to cut off
			secrets[file] = longestField(cmp.Or(token, string(raw)))
		}
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
	s.must(err)
	for _, log := range logs {
		raw, err := os.ReadFile(log)
		s.must(err)
		for file, secret := range secrets {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s has the secret of %s in it", log, file)
			}
		}
	}
	t.Logf("%d logs, %d secrets", len(logs), len(secrets))
}

// longestField is a token, or a line of a key.
func longestField(text string) (longest string) {
	for field := range strings.FieldsSeq(text) {
		if len(field) > len(longest) {
			longest = field
		}
	}
	return longest
}
