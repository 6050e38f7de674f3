package neighbours

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// volumeTakes is how long the volume takes: several times as long as a node has to be superfluous.
const volumeTakes = 90 * time.Second

// slowVolume is about a node that looks empty while a volume is made on it.
func (a autoscaler) slowVolume() Scenario {
	return Scenario{
		Name: "slow-volume",
		About: "a node comes for a pod whose volume takes 90 s to be made there; the node looks empty meanwhile, and must " +
			"not be removed.",
		Run: func(ctx context.Context, s *Scene) (Result, error) {
			if err := createClasses(ctx, s); err != nil {
				return Result{}, err
			}
			w, err := a.ground(ctx, s, 1)
			if err != nil {
				return Result{}, err
			}
			if err := fillFixed(ctx, s); err != nil {
				return Result{}, err
			}
			disk := workload{app: "disk", replicas: 1, cpu: fmt.Sprint(nodeCPU / 2), disk: true} //nolint:mnd // half a node
			if err := disk.create(ctx, s); err != nil {
				return Result{}, err
			}
			return slowly(ctx, s, w)
		},
	}
}

// slowly lets volumes be made a while after a node was selected for the claim.
func slowly(ctx context.Context, s *Scene, w *watcher) (Result, error) {
	began := time.Now()
	err := s.Eventually(ctx, gaveUp, "a node is selected for the claim", func(ctx context.Context) (string, error) {
		claim, err := s.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data-disk-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "there is no claim", nil
		}
		if err != nil || claim.Annotations[selectedNode] != "" {
			return "", err
		}
		return "none is", nil
	})
	if err != nil {
		return Result{}, err
	}
	s.Logf("a node was selected after %.0f s", time.Since(began).Seconds())
	if err := bench.Pause(ctx, volumeTakes); err != nil {
		return Result{}, err
	}
	if err := startProvisioner(s); err != nil {
		return Result{}, err
	}
	if _, err := waitBound(ctx, s, "disk-0"); err != nil {
		return Result{}, err
	}
	r := Result{Measures: []Measure{
		{Name: "pending", Unit: "s", Value: time.Since(began).Seconds(), Margin: AtMost(pendingMore)},
	}}
	err = w.look(func(h *history) {
		r.Measures = append(r.Measures,
			Measure{Name: "elastic nodes, most", Value: float64(h.most), Margin: Within(0)},
			Measure{Name: "elastic nodes removed", Value: float64(h.removed()), Margin: AtMost(0)})
		r.Wrong = h.stranded()
	})
	return r, err
}
