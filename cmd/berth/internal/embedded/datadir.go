package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Endpoints is the content of endpoints.json: where the stores of a running process listen, and the credentials for
// NATS. Addresses of stores that are not embedded are empty.
//
//	{"pid": 4711, "etcd": ["unix:///…/sock/client.sock"],
//	 "nats": "nats://127.0.0.1:40123", "natsUser": "berth", "natsPass": "…"}
type Endpoints struct {
	PID      int      `json:"pid"`
	Etcd     []string `json:"etcd"`
	NATS     string   `json:"nats"`
	NATSUser string   `json:"natsUser"`
	NATSPass string   `json:"natsPass"`
}

const (
	// lockFile is kept when the process ends: removing it would let two processes lock two files of the same name.
	lockFile      = "berth.lock"
	endpointsFile = "endpoints.json"
)

// ReadEndpoints returns the addresses of the stores of a running `berth up`. After a crash the file may be there
// although nothing listens; then the connection fails.
func ReadEndpoints(dir string) (Endpoints, error) {
	var e Endpoints
	path := filepath.Join(dir, endpointsFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return e, fmt.Errorf("--data-dir: %s: no berth is running on it (no %s)", dir, endpointsFile)
	}
	if err != nil {
		return e, fmt.Errorf("--data-dir: %w", err)
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("--data-dir: %s: %w", path, err)
	}
	return e, nil
}

// writeEndpoints writes endpoints.json, readable for the owner alone, as it contains the password of NATS.
func writeEndpoints(dir string, e Endpoints) error {
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, endpointsFile), append(raw, '\n'), 0o600)
}

// lock locks the directory for this process, and creates it if it is missing; the kernel releases the lock if the
// process dies. Two processes on one directory would damage the stores' files. A lock of flock is on the open file, so
// release closes it.
func lock(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("--data-dir: %s: in use by another berth process; "+
			"give each `berth up` a directory of its own", dir)
	}
	return func() { _ = f.Close() }, nil
}
