package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/tools/cluster/internal/probe"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// Pods may ask for time with these annotations (a Go duration): to start before
// a pod is ready, to run before a Job's pod completes, and to linger after it was
// deleted. They are the names that KWOK's own slower stages use.
const (
	readyDelay    = "pod-ready.stage.kwok.x-k8s.io/delay"
	completeDelay = "pod-complete.stage.kwok.x-k8s.io/delay"
	deleteDelay   = "pod-delete.stage.kwok.x-k8s.io/delay"
)

// podRange is where pods get their addresses from; nothing listens on them.
// Nodes all report the loopback address as theirs.
const podRange = "10.128.0.0/10"

// kwokOptions lets the simulated kubelets keep up with a scheduler that binds
// thousands of pods per second; KWOK's default is four at a time.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 32
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 8
`

func (p *plane) startKWOK(ctx context.Context) error {
	if !p.KWOK {
		return nil
	}
	path, err := p.program("kwok")
	if err != nil {
		return err
	}
	dir := filepath.Join(p.Dir, "kwok")
	config := filepath.Join(dir, "kwok.yaml")
	if err := writeKWOKConfig(config, p.Stages); err != nil {
		return err
	}
	var url string
	return p.session.Launch(ctx, session.Program{
		Ports: 1,
		Spec: func(ports []int) (process.Spec, error) {
			address := net.JoinHostPort(process.Loopback, strconv.Itoa(ports[0]))
			url = "http://" + address + "/healthz"
			return process.Spec{
				Name: "kwok", Path: path,
				Args: []string{
					"--kubeconfig=" + p.session.State.Cluster.Kubeconfig,
					"--config=" + config,
					"--manage-all-nodes",
					"--cidr=" + podRange,
					"--node-ip=" + process.Loopback,
					fmt.Sprintf("--node-lease-duration-seconds=%d", int(p.NodeLease.Seconds())),
					"--server-address=" + address,
					"--v=WARN", // INFO is a line for every change of every pod
				},
				// Without this KWOK also reads the user's own ~/.kwok.
				Env: []string{"KWOK_WORKDIR=" + dir},
			}, nil
		},
		Ready: func(ctx context.Context) error { return probe.OK(ctx, probe.Insecure(), url) },
	})
}

// writeKWOKConfig writes options and stages into one file.
func writeKWOKConfig(path, extraStages string) error {
	ready, err := delayedBy(podstages.DefaultPodReady, readyDelay)
	if err != nil {
		return err
	}
	complete, err := delayedBy(podstages.DefaultPodComplete, completeDelay)
	if err != nil {
		return err
	}
	remove, err := delayedBy(podstages.DefaultPodDelete, deleteDelay)
	if err != nil {
		return err
	}
	documents := []string{
		kwokOptions, nodestages.DefaultNodeInit, ready, complete, remove,
	}
	if extraStages != "" {
		extra, err := os.ReadFile(extraStages)
		if err != nil {
			return fmt.Errorf("read the additional stages: %w", err)
		}
		documents = append(documents, string(extra))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Join(documents, "\n---\n")), 0o644)
}

// delayedBy returns the stage with a delay that the pod's annotation sets, and
// no delay without the annotation.
func delayedBy(stage, annotation string) (string, error) {
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(stage), &object); err != nil {
		return "", fmt.Errorf("read KWOK's stage: %w", err)
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return "", fmt.Errorf("read KWOK's stage: it has no spec:\n%s", stage)
	}
	spec["delay"] = map[string]any{
		"durationMilliseconds": 0,
		"durationFrom": map[string]any{
			"expressionFrom": fmt.Sprintf(".metadata.annotations[%q]", annotation),
		},
	}
	delayed, err := yaml.Marshal(object)
	return string(delayed), err
}
