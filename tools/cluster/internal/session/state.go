package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-scheduler/berth/tools/cluster/internal/pki"
)

// Phase is where a session is in its life.
type Phase string

// The phases, in order; a session ends in Stopped or Failed.
const (
	Starting Phase = "starting"
	Ready    Phase = "ready"
	Stopping Phase = "stopping"
	Stopped  Phase = "stopped"
	Failed   Phase = "failed"
)

// State is the content of state.json: everything another program needs in order to use the session's programs.
type State struct {
	// Kind is "cluster", "store" or "peer"; Name identifies stores and peers.
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	Phase Phase  `json:"phase"`
	// Message explains why the phase is failed.
	Message string `json:"message,omitempty"`
	// Dir is the session's directory, absolute.
	Dir string `json:"dir"`
	// SupervisorPID is the process to send SIGTERM to.
	SupervisorPID int `json:"supervisorPID"`
	// URLs are the client addresses of a store.
	URLs []string `json:"urls,omitempty"`
	// Cluster is set for clusters.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Processes are the children in the order they were started.
	Processes []Process `json:"processes,omitempty"`
}

// Cluster is the part of a state that only a cluster has.
type Cluster struct {
	// Server is the API server's URL, Version the version that it reports.
	Server  string `json:"server"`
	Version string `json:"version"`
	// Kubernetes is the older minor version that was asked for, empty for none.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Kubeconfig is a file with administrator credentials.
	Kubeconfig string `json:"kubeconfig"`
	// CAFile, Admin and the KubeSchedulerKubeconfig are under DIR/pki.
	CAFile                  string   `json:"caFile"`
	Admin                   pki.Pair `json:"admin"`
	KubeSchedulerKubeconfig string   `json:"kubeSchedulerKubeconfig"`
	// EtcdURL is the cluster's own etcd; clients authenticate with EtcdClient.
	EtcdURL    string   `json:"etcdURL"`
	EtcdClient pki.Pair `json:"etcdClient"`
	// KWOK reports whether simulated kubelets run.
	KWOK bool `json:"kwok"`
	// Controllers are the controllers that kube-controller-manager runs, or "none".
	Controllers string `json:"controllers"`
}

// Process is one child.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Log  string `json:"log"`
}

// Load reads the state of a session's directory.
func Load(dir string) (State, error) {
	content, err := os.ReadFile(statePath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return State{}, fmt.Errorf("nothing was started in %s (no state.json): %w", dir, err)
	}
	if err != nil {
		return State{}, err
	}
	var state State
	if err := json.Unmarshal(content, &state); err != nil {
		return State{}, fmt.Errorf("read %s: %w", statePath(dir), err)
	}
	return state, nil
}

// save replaces state.json in one step: a reader sees the old or the new.
func (s State) save() error {
	content, err := s.JSON()
	if err != nil {
		return err
	}
	fresh := statePath(s.Dir) + ".new"
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, statePath(s.Dir))
}

// JSON is the state as state.json and the commands' output show it.
func (s State) JSON() ([]byte, error) {
	content, err := json.MarshalIndent(s, "", "  ")
	return append(content, '\n'), err
}

func statePath(dir string) string { return filepath.Join(dir, "state.json") }
