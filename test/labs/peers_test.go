//go:build e2e

package labs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

// peers starts what Berth is compared with, by the same files: kube-scheduler, one or more, and
// the descheduler if there is a policy for it.
func (l *lab) peers(config, policy, interval string) {
	l.Helper()
	configs := []string{config}
	if slices.Contains(apart, filepath.Base(l.folder)) {
		configs = l.split(config)
	}
	for i, config := range configs {
		peer, err := l.cluster.StartPeer(l.Context(), harness.PeerConfig{
			Name: fmt.Sprintf("kube-scheduler-%d", i), Config: config,
		})
		l.must(err)
		kit.AtEnd(l.T, peer.Stop)
	}
	if policy == "" {
		return
	}
	every, err := time.ParseDuration(interval)
	l.must(err)
	peer, err := l.cluster.StartPeer(l.Context(), harness.PeerConfig{Policy: policy, Interval: every})
	l.must(err)
	kit.AtEnd(l.T, peer.Stop)
}

// split writes a configuration file per profile.
func (l *lab) split(config string) []string {
	l.Helper()
	content, err := os.ReadFile(config)
	l.must(err)
	var document map[string]any
	l.must(yaml.Unmarshal(content, &document))
	profiles, ok := document["profiles"].([]any)
	if !ok {
		l.Fatalf("%s: no profiles", config)
	}
	var files []string
	for i, profile := range profiles {
		document["profiles"] = []any{profile}
		content, err := yaml.Marshal(document)
		l.must(err)
		file := filepath.Join(l.work, fmt.Sprintf("profile-%d.yaml", i))
		l.must(os.WriteFile(file, content, 0o600))
		files = append(files, file)
	}
	return files
}
