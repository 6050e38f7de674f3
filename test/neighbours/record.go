package neighbours

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Record is the accepted outcome of one scenario.
type Record struct {
	// Version is Berth's, as `git describe` prints it.
	Version string `json:"version"`
	// Pods is the size of a script of adjustable size, 0 for others.
	Pods int `json:"pods,omitempty"`
	// KubeScheduler and Berth are the results beside each.
	KubeScheduler Result `json:"kubeScheduler"`
	Berth         Result `json:"berth"`
	// Differences are those of Berth's result, one sentence each.
	Differences []string `json:"differences,omitempty"`
}

// acceptedDir is where records lie, relative to the repository.
const acceptedDir = "test/neighbours/accepted"

func recordPath(root, neighbour, scenario string) string {
	return filepath.Join(root, filepath.FromSlash(acceptedDir), neighbour, scenario+".json")
}

// Accept writes a record into the repository.
func Accept(root, neighbour, scenario string, r Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := recordPath(root, neighbour, scenario)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Accepted reads a record; false if there is none.
func Accepted(root, neighbour, scenario string) (Record, bool, error) {
	var r Record
	text, err := os.ReadFile(recordPath(root, neighbour, scenario))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, fmt.Errorf("%s of %s: %w", scenario, neighbour, err)
	}
	return r, true, nil
}
