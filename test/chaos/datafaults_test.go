//go:build e2e

package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

// deleteNode deletes a node; repair registers it again, as its kubelet would: another node under the same name, which
// is not cordoned.
func (s *site) deleteNode(ctx context.Context, name string) (repair func() error, err error) {
	nodes := s.cluster.Client.CoreV1().Nodes()
	old, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := nodes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	again := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: old.Labels, Annotations: old.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: old.Spec.ProviderID},
		Status:     old.Status,
	}
	return func() error {
		_, err := nodes.Create(ctx, again, metav1.CreateOptions{})
		return err
	}, nil
}

// poison appends records that no reader understands: one that is like others except for its content, and one that
// lacks the envelope too.
func (s *site) poison(ctx context.Context, stream eventlog.Stream) error {
	like := events.EncodeFact(events.Fact{Kind: events.KindPod, UID: "poison", Namespace: "none", Name: "poison"})
	if stream == eventlog.Decisions {
		like = events.EncodeDecision(events.Decision{
			Kind: events.DecisionFailed, Pod: events.PodRef{UID: "poison", Namespace: "none", Name: "poison"}, Actor: "chaos",
		})
	}
	like.Data = []byte("\xff\xff\xff no message of any version")
	bare := eventlog.Message{Subject: like.Subject, Data: like.Data}
	for _, m := range []eventlog.Message{like, bare} {
		if _, err := s.log.Append(ctx, stream, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
			return fmt.Errorf("poison for %s: %w", stream, err)
		}
	}
	return nil
}

// record begins a recording of the ledger as it is.
func (s *site) record(ctx context.Context) (err error) {
	s.history, err = s.programs.Record(ctx, harness.HistoryConfig{
		Kubeconfig: s.cluster.Kubeconfig, Etcd: strings.Join(s.etcd.URLs, ","),
		Dir: s.dir, Name: fmt.Sprintf("record-%d", len(s.earlier)), MaxMiB: historyMiB,
	})
	if err == nil {
		kit.AtEnd(s.T, s.history.Stop)
	}
	return err
}

// restore makes the ledger begin again from its backup. The changes since then are in a recording that ends before;
// another one begins with the restored state.
func (s *site) restore(ctx context.Context) error {
	if err := s.history.Stop(ctx); err != nil {
		return err
	}
	s.earlier = append(s.earlier, s.history)
	if err := s.etcd.Restore(ctx, filepath.Join(s.dir, "backup")); err != nil {
		return err
	}
	return s.record(ctx)
}
