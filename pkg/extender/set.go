package extender

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// Set is the extenders of a configuration, in the order in which they are called. It is safe for concurrent use.
type Set struct {
	clients []*Client
	logger  *slog.Logger
}

// NewSet creates the clients of the extenders of one profile; it makes no call yet.
func NewSet(extenders []configv1.Extender, logger *slog.Logger) (*Set, error) {
	s := &Set{logger: logger}
	for _, e := range placement.OrderedExtenders(extenders) {
		c, err := NewClient(e)
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

// Close closes idle connections.
func (s *Set) Close() {
	for _, c := range s.clients {
		c.close()
	}
}

// Consult asks the extenders which of some nodes a pod may be placed on, and for the scores of the nodes that all
// of them leave. The answer has an opinion of every node. Source: findNodesThatPassExtenders and prioritizeNodes in
// pkg/scheduler/schedule_one.go.
func (s *Set) Consult(
	ctx context.Context, pod *state.Pod, nodes []*state.Node,
) (map[string]placement.Opinion, error) {
	q := consultation{set: s, pod: pod, object: pod.Object(), opinions: make(map[string]placement.Opinion, len(nodes))}
	for _, n := range nodes {
		q.left = append(q.left, n.Object)
	}
	// Questions are sorted by name, so that equal questions are equal bytes.
	slices.SortFunc(q.left, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range q.left {
		q.opinions[n.Name] = placement.Opinion{}
	}
	if err := q.filter(ctx); err != nil {
		return nil, err
	}
	// With one node left, scores would decide nothing.
	if len(q.left) > 1 {
		q.prioritize(ctx)
	}
	return q.opinions, nil
}

// consultation is one question to all extenders while it is in progress. left holds the nodes that no filter has
// rejected so far, sorted by name; opinions has every node of the question.
type consultation struct {
	set      *Set
	pod      *state.Pod
	object   *corev1.Pod
	left     []*corev1.Node
	opinions map[string]placement.Opinion
}

// filter asks one extender after the other, as long as nodes are left: the nodes of each question are those that the
// one before has left.
func (q *consultation) filter(ctx context.Context) error {
	for _, c := range q.set.clients {
		if len(q.left) == 0 {
			return nil
		}
		if c.config.FilterVerb == "" || !placement.Interested(c.config, q.pod) {
			continue
		}
		f, err := c.filter(ctx, q.object, q.left)
		switch {
		case err != nil && c.config.Ignorable:
			q.ignored(c, c.config.FilterVerb, err)
			continue
		case err != nil:
			return err
		}
		q.applyFilter(f)
	}
	return nil
}

// applyFilter records which nodes a filter has left, and why it has rejected the others.
func (q *consultation) applyFilter(f filtered) {
	q.left = slices.DeleteFunc(q.left, func(n *corev1.Node) bool {
		if f.left[n.Name] {
			return false
		}
		q.opinions[n.Name] = f.opinion(n.Name)
		return true
	})
}

// prioritize asks all extenders concurrently, about the nodes that are left, and adds up their points by weight. One
// that fails gives no points. Hosts in an answer that were not asked about are ignored.
func (q *consultation) prioritize(ctx context.Context) {
	// Each call writes its own element; the sum is formed after all of them, in the order of the extenders.
	lists := make([]extenderv1.HostPriorityList, len(q.set.clients))
	var g errgroup.Group
	for i, c := range q.set.clients {
		if c.config.PrioritizeVerb == "" || !placement.Interested(c.config, q.pod) {
			continue
		}
		g.Go(func() error {
			list, err := c.prioritize(ctx, q.object, q.left)
			if err != nil {
				q.ignored(c, c.config.PrioritizeVerb, err)
				return nil
			}
			lists[i] = list
			return nil
		})
	}
	_ = g.Wait() // no call returns an error
	for i, list := range lists {
		for _, host := range list {
			o, known := q.opinions[host.Host]
			if !known || o.Rejected {
				continue
			}
			o.Points += placement.ExtenderPoints(host.Score, q.set.clients[i].config.Weight)
			q.opinions[host.Host] = o
		}
	}
}

// ignored logs the failure of an extender without which the consultation goes on.
func (q *consultation) ignored(c *Client, verb string, err error) { q.set.ignored(c, verb, q.pod, err) }

// ignored logs the failure of an ignorable extender.
func (s *Set) ignored(c *Client, verb string, pod *state.Pod, err error) {
	s.logger.Warn("extender skipped after a failure", "extender", address(c.config), "verb", verb, "pod", pod.Key(),
		telemetry.KeyError, err)
}

// Binds reports whether any of the extenders binds pods.
func (s *Set) Binds() bool {
	return slices.ContainsFunc(s.clients, func(c *Client) bool { return c.config.BindVerb != "" })
}

// BindsPod reports whether an extender binds this pod, instead of the binder.
func (s *Set) BindsPod(pod *state.Pod) bool { return s.binder(pod) != nil }

// binder returns the first extender that binds this pod; nil if the binder does. Source: extendersBinding.
func (s *Set) binder(pod *state.Pod) *Client {
	for _, c := range s.clients {
		if c.config.BindVerb != "" && placement.Interested(c.config, pod) {
			return c
		}
	}
	return nil
}

// Bind asks the pod's extender to bind it. asked is false if no extender binds the pod, or if the one that does
// failed and is ignorable: then the caller must bind it. The error is a *RefusedError (errors.As) if the extender
// reports that it did not bind; any other error leaves the outcome unknown. Source: extendersBinding in
// pkg/scheduler/schedule_one.go.
func (s *Set) Bind(ctx context.Context, pod *state.Pod, node string) (asked bool, err error) {
	c := s.binder(pod)
	if c == nil {
		return false, nil
	}
	err = c.bind(ctx, pod, node)
	if err != nil && c.config.Ignorable {
		s.ignored(c, c.config.BindVerb, pod, err)
		return false, nil
	}
	return true, err
}
