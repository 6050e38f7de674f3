package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// gaveUp is how long a pod may wait for a new node before the scenario ends without one.
	gaveUp = 2 * time.Minute
	// gate keeps a pod from the scheduler while the scenario writes into its status.
	gate = "example.com/not-yet"
)

// nameOfNoNode is about a nominatedNodeName that leads nowhere.
func (a autoscaler) nameOfNoNode() Scenario {
	return a.stale("name-of-no-node", "ghost", "a pod that fits nowhere has the name of a node that does not exist in "+
		"its `nominatedNodeName`, as a deleted node leaves it; a node must come all the same.")
}

// nameOfAFullNode is about a nominatedNodeName that is an existing node without room.
func (a autoscaler) nameOfAFullNode() Scenario {
	return a.stale("name-of-a-full-node", fixedName(0), "a pod that fits nowhere has the name of a full node in its "+
		"`nominatedNodeName`, as a scheduler leaves it that died; a node must come all the same.")
}

func (a autoscaler) stale(name, node, about string) Scenario {
	return Scenario{Name: name, About: about, Run: func(ctx context.Context, s *Scene) (Result, error) {
		w, err := a.ground(ctx, s, 1)
		if err != nil {
			return Result{}, err
		}
		if err := fillFixed(ctx, s); err != nil {
			return Result{}, err
		}
		waited, err := nominated(ctx, s, node)
		if err != nil {
			return Result{}, err
		}
		r := Result{Measures: []Measure{{Name: "pending", Unit: "s", Value: waited.Seconds(), Margin: AtMost(pendingMore)}}}
		return r, w.look(func(h *history) {
			r.Measures = append(r.Measures,
				Measure{Name: "elastic nodes", Value: float64(h.most), Margin: Within(0)})
		})
	}}
}

// fillFixed fills the first fixed node.
func fillFixed(ctx context.Context, s *Scene) error {
	full := pendingPod("full", fmt.Sprint(nodeCPU))
	full.Spec.NodeName = fixedName(0)
	_, err := s.Client.CoreV1().Pods(namespace).Create(ctx, full, metav1.CreateOptions{})
	return err
}

// nominated creates a pod that fits only on a new node, with a name in its nominatedNodeName, and returns how long it
// waited for its node, at most gaveUp.
func nominated(ctx context.Context, s *Scene, node string) (time.Duration, error) {
	pods := s.Client.CoreV1().Pods(namespace)
	pod := pendingPod("stale", fmt.Sprint(nodeCPU/2)) //nolint:mnd // half a node
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	status := fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node)
	if _, err := pods.Patch(ctx, pod.Name, mergePatch, status, metav1.PatchOptions{}, "status"); err != nil {
		return 0, err
	}
	ungated := []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`)
	if _, err := pods.Patch(ctx, pod.Name, types.JSONPatchType, ungated, metav1.PatchOptions{}); err != nil {
		return 0, err
	}
	return waitBound(ctx, s, pod.Name)
}

// waitBound returns how long a pod waits for its node from now on, at most gaveUp.
func waitBound(ctx context.Context, s *Scene, name string) (time.Duration, error) {
	began, bound := time.Now(), false
	err := harness.Eventually(ctx, 2*gaveUp, "pod "+name+" is bound", func(ctx context.Context) (string, error) {
		pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if bound = pod.Spec.NodeName != ""; bound || time.Since(began) > gaveUp {
			return "", nil
		}
		return "it is pending", nil
	})
	if !bound {
		s.Logf("pod %s is pending after %s", name, gaveUp)
		return gaveUp, err
	}
	return time.Since(began), err
}
