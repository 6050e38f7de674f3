package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/tools/images/internal/oci"
)

// runTimeout bounds a run: both commands end by themselves, at once.
const runTimeout = 30 * time.Second

// run unpacks the files and runs the program with them as its root and with the image's user: `version` must name the
// release, and a start without stores must fail with one line that names the flags. It does not check architectures
// other than this machine's.
func run(files map[string]file, arch, version string) (string, error) {
	if runtime.GOOS != "linux" || arch != runtime.GOARCH {
		return "", nil
	}
	root, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(root) }() // a temporary folder
	if err := writeFiles(root, files); err != nil {
		return "", err
	}
	output, err := inside(root, "version")
	if err != nil {
		return "", fmt.Errorf("berth version: %w: %s", err, output)
	}
	if !strings.Contains(output, version) || !strings.Contains(output, "linux/"+arch) {
		return "", fmt.Errorf("berth version says %q: want %s and linux/%s", output, version, arch)
	}
	refused, err := inside(root, "run", "queue")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strings.Count(refused, "\n") != 0 || !strings.Contains(refused, "nats-url") {
		return "", fmt.Errorf("berth run queue without flags: %w, says %q: want one line that names the flags", err, refused)
	}
	return output, nil
}

// writeFiles writes the files, readable by all users: the program's user is not the one that writes them.
func writeFiles(root string, files map[string]file) error {
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	for _, name := range contents { // parents first
		f, path := files[name], filepath.Join(root, name)
		if f.mode.IsDir() {
			if err := os.Mkdir(path, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, f.content, f.mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

// inside runs the program with the folder as its whole file system and an empty
// environment. Who is not root gets a user namespace to be allowed to.
func inside(root string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, oci.Program, args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: oci.User, Gid: oci.User}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: oci.User, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: oci.User, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
