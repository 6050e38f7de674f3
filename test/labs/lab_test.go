//go:build e2e

package labs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// within bounds the wait for anything that has to happen; a loaded machine with two
	// processors takes seconds.
	within = time.Minute
	// documentedAddress is where a Berth that was started as documented serves its metrics.
	documentedAddress = "127.0.0.1:10351"
	// documentedData is where a Berth that was started as documented keeps its stores.
	documentedData = "/tmp/berth-labs"
	// documentedDataDir is the flag by which commands that read the log find the data of a Berth that was started as
	// documented.
	documentedDataDir = "--data-dir berth-data"
	// documentedCluster is the directory of the cluster that is started as documented, from a lab.
	documentedCluster = "../../../.build/cluster"
)

// lab is one lab under test.
type lab struct {
	*testing.T
	// folder holds the lab's files; work is where the test writes.
	folder, work string
	// kubeconfig leads kubectl to a namespace of the lab's own.
	kubeconfig string
	cluster    *harness.Cluster
	client     kubernetes.Interface
	// left are the blocks of the README that did not run yet.
	left []block
	// limit bounds the time of one block, or of its consequences.
	limit time.Duration
	// first is the block that started Berth.
	first block
	// berth is nil when kube-scheduler runs, or Berth as separate processes.
	berth *harness.Berth
	// recorded: a recorder writes the history of Berth's ledger and of the cluster.
	recorded bool
	// env is added to the environment of the README's commands.
	env []string
}

// newLab prepares a lab: a namespace, and Berth with the defaults unless the README's first
// block starts it otherwise.
func newLab(t *testing.T, cluster *harness.Cluster, work, name string) *lab {
	t.Helper()
	l := &lab{
		T: t, folder: filepath.Join(programs.Root, "examples", "labs", name), work: work,
		kubeconfig: filepath.Join(work, "kubeconfig"), cluster: cluster, client: cluster.Client,
		limit: within, left: blocks(read(t, "labs", name, "README.md")),
	}
	l.must(os.MkdirAll(work, 0o755))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Tails())
		}
	})
	l.namespace(l.namespaceName())
	if l.left[0].fleet() {
		l.fleet()
		return l
	}
	up := block{text: "berth up"}
	if l.left[0].up() {
		up, l.left = l.left[0], l.left[1:]
	}
	l.first = up
	l.up(up)
	return l
}

// fleetDir is where the processes of a fleet write their logs, until the README's last block removes it.
func (l *lab) fleetDir() string { return filepath.Join(l.work, "fleet") }

// fleet prepares a lab whose README starts Berth as separate processes.
func (l *lab) fleet() {
	l.env = append(l.env, "FLEET_DIR="+l.fleetDir())
	kit.AtEnd(l.T, func(ctx context.Context) error {
		if _, err := os.Stat(l.fleetDir()); os.IsNotExist(err) {
			return nil // the README's last block has ended it
		}
		return l.command(ctx, "../../fleet.sh down").Run()
	})
}

// must ends the lab on an error.
func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// namespaceName is the lab's own namespace.
func (l *lab) namespaceName() string { return "lab-" + filepath.Base(l.folder) }

// namespace makes a namespace and the kubeconfig that leads to it.
func (l *lab) namespace(name string) {
	l.Helper()
	l.must(harness.CreateNamespace(l.Context(), l.client, harness.Namespace(name)))
	kit.AtEnd(l.T, func(ctx context.Context) error {
		return l.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	})
	config, err := clientcmd.LoadFromFile(l.cluster.Kubeconfig)
	l.must(err)
	config.Contexts[config.CurrentContext].Namespace = name
	l.must(clientcmd.WriteToFile(*config, l.kubeconfig))
}

// up starts the scheduler as a block says, and stops it at the end of the lab.
func (l *lab) up(b block) {
	l.Helper()
	var args []string
	config, policy, interval := "", "", ""
	for flag := range strings.SplitSeq(strings.TrimSpace(b.text), " --") {
		name, value, _ := strings.Cut(flag, " ")
		switch name {
		case "berth", "data-dir": // the test has a directory of its own
		case "config":
			config = filepath.Join(l.folder, value)
		case "policy":
			policy = filepath.Join(l.folder, value)
			args = append(args, "--policy", policy)
		case "descheduling-interval":
			interval = value
			args = append(args, "--"+name, value)
		default:
			args = append(args, "--"+name, value)
		}
	}
	if *scheduler == kubeScheduler {
		l.peers(config, policy, interval)
		return
	}
	started, err := programs.Up(l.Context(), harness.UpConfig{
		Kubeconfig: l.cluster.Kubeconfig, DataDir: filepath.Join(l.work, "data"), LogDir: l.work,
		Config: config, Args: args,
	})
	l.must(err)
	l.berth = started
	kit.AtEnd(l.T, func(ctx context.Context) error {
		err := started.Stop(ctx)
		if l.Failed() {
			l.Log(started.Tail())
		}
		return err
	})
	if l.recorded {
		return // the recorder survives a restart
	}
	l.recorded = true
	history, err := programs.Record(l.Context(), harness.HistoryConfig{
		Kubeconfig: l.cluster.Kubeconfig, DataDir: filepath.Join(l.work, "data"), Dir: l.work, Name: "record",
	})
	l.must(err)
	kit.AtEnd(l.T, func(ctx context.Context) error { return l.replay(ctx, history) })
}

// replay ends the recording of the lab and audits it: no invariant was broken at any moment.
func (l *lab) replay(ctx context.Context, history *harness.History) error {
	result, err := history.Audit(ctx)
	if err != nil {
		return err
	}
	l.Logf("berth audit:\n%s", result.Stdout)
	if result.Code != 0 {
		return fmt.Errorf("berth audit: exit code %d\n%s", result.Code, result.Stderr)
	}
	return nil
}

// next runs the README's next block and returns its output.
func (l *lab) next() string {
	l.Helper()
	if len(l.left) == 0 {
		l.Fatal("the README has no block left")
	}
	b := l.left[0]
	l.left = l.left[1:]
	data := filepath.Join(l.work, "data")
	text := strings.NewReplacer(
		documentedDataDir, "--data-dir "+data, documentedData, data, documentedCluster, l.cluster.Dir).Replace(b.text)
	if l.berth != nil {
		text = strings.ReplaceAll(text, documentedAddress, l.berth.Address)
	}
	ctx, cancel := context.WithTimeout(l.Context(), l.limit)
	defer cancel()
	cmd := l.command(ctx, text)
	started := time.Now()
	output, err := cmd.CombinedOutput()
	l.Logf("README, line %d: %s", b.line, time.Since(started).Round(time.Millisecond))
	if err != nil {
		l.Fatalf("README, line %d: %v\n%s\n%s", b.line, err, text, output)
	}
	return string(output)
}

// command is commands of the README, about to run as its reader runs them.
func (l *lab) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = l.folder
	// kubectl remembers in its home what the API server serves, which the next lab needs too.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig, "HOME="+filepath.Dir(l.work),
		"PATH="+filepath.Dir(programs.Berth)+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, l.env...)
	return cmd
}

// skip leaves the README's next block out.
func (l *lab) skip() { l.left = l.left[1:] }

// finish runs the last block and checks that it leaves nothing behind.
func (l *lab) finish() {
	l.Helper()
	if len(l.left) != 1 {
		l.Fatalf("%d blocks of the README are left, want the one that cleans up", len(l.left))
	}
	l.audit()
	l.next()
	l.eventually(l.limit, "nothing is left behind", func(ctx context.Context) (string, error) {
		nodes, pods, err := harness.ListAll(ctx, l.client)
		if err != nil || len(nodes)+len(pods) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d nodes and %d pods", len(nodes), len(pods)), nil
	})
}

// audit uses `berth check` to look for overcommitted nodes and pods on nodes where they must not be.
func (l *lab) audit() {
	l.Helper()
	if *scheduler == kubeScheduler {
		return
	}
	result, err := programs.Command(l.Context(), "check", "--kubeconfig", l.cluster.Kubeconfig)
	l.must(err)
	if result.Code != 0 {
		l.Errorf("berth check: exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
	}
}

// eventually ends the lab when something stays missing.
func (l *lab) eventually(limit time.Duration, what string, check func(context.Context) (string, error)) {
	l.Helper()
	l.must(harness.Eventually(l.Context(), limit, what, check))
}
