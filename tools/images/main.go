package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/images/internal/oci"
	"github.com/berth-scheduler/berth/tools/images/internal/verify"
)

// architectures that an index has images for.
var architectures = []string{"amd64", "arm64"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run; the exit code is the contract
	}
}

// flags are the sources of a build and its destination.
type flags struct {
	root, out, version string
	created            int64
}

func newCommand() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use: "images", Short: "Build and check container images", SilenceUsage: true, SilenceErrors: true,
	}
	p := root.PersistentFlags()
	p.StringVar(&f.root, "root", ".", "root of the repository")
	p.StringVar(&f.out, "out", ".build/images", "directory to write to")
	p.StringVar(&f.version, "version", "", "version of the release")
	p.Int64Var(&f.created, "created", 0, "time of the release (its commit), in Unix seconds")
	add := func(use, short string, run func(ctx context.Context) error) {
		root.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return run(c.Context()) },
		})
	}
	add("build", "Write the layout", f.build)
	add("verify", "Check the layout", func(context.Context) error { return f.verify() })
	add("same", "Build in another directory and compare", f.same)
	return root
}

func (f *flags) release() (oci.Release, error) {
	if f.version == "" {
		return oci.Release{}, errors.New("--version: empty: want the version of the release")
	}
	root, err := filepath.Abs(f.root)
	if err != nil {
		return oci.Release{}, err
	}
	f.root = root
	if f.created < 0 {
		return oci.Release{}, fmt.Errorf("--created: %d: want 0 or more seconds", f.created)
	}
	return oci.Release{Version: f.version, Created: time.Unix(f.created, 0).UTC()}, nil
}

func (f *flags) build(ctx context.Context) error {
	r, err := f.release()
	if err != nil {
		return err
	}
	platforms := make([]oci.Platform, 0, len(architectures))
	for _, arch := range architectures {
		program, err := filepath.Abs(filepath.Join(f.out, "bin", "berth-linux-"+arch))
		if err != nil {
			return err
		}
		if err := compile(ctx, f.root, program, arch, f.version); err != nil {
			return err
		}
		platforms = append(platforms, oci.Platform{Arch: arch, File: program})
	}
	digest, err := oci.Write(f.out, r, platforms)
	if err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s\n", filepath.Join(f.out, oci.LayoutDir), digest)
	return nil
}

// compile builds a static program that contains no path of this machine and no identity of
// this build.
func compile(ctx context.Context, root, to, arch, version string) error {
	fmt.Printf("compiling for linux/%s ...\n", arch)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+version, "-o", to, "./cmd/berth")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOWORK="+filepath.Join(root, "go.work"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for linux/%s: %w", arch, err)
	}
	return nil
}

func (f *flags) verify() error {
	digest, reports, err := verify.Layout(filepath.Join(f.out, oci.LayoutDir))
	if err != nil {
		return err
	}
	fmt.Println("index", digest)
	for _, r := range reports {
		fmt.Printf("  linux/%s %s %.1f MiB, %d modules\n", r.Arch, r.Digest, float64(r.Bytes)/(1<<20), r.Modules)
		if r.Output != "" {
			fmt.Printf("    ran without a shell, as user %d, in its own file system: %s\n", oci.User, r.Output)
		} else {
			fmt.Printf("    not run: this machine has another architecture\n")
		}
	}
	return nil
}

// same copies the sources to another folder, builds there and compares the indexes.
func (f *flags) same(ctx context.Context) error {
	before, _, err := verify.Layout(filepath.Join(f.out, oci.LayoutDir))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-again-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	if err := copySources(ctx, f.root, dir); err != nil {
		return err
	}
	again := flags{root: dir, out: filepath.Join(dir, ".build", "images"), version: f.version, created: f.created}
	if err := again.build(ctx); err != nil {
		return err
	}
	after, _, err := verify.Layout(filepath.Join(again.out, oci.LayoutDir))
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("built in another directory, the index is %s: want %s", after, before)
	}
	fmt.Println("built in another directory: identical", after)
	return nil
}

// copySources copies what git tracks, as it is on disk.
func copySources(ctx context.Context, root, to string) error {
	list := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted and not committed
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
