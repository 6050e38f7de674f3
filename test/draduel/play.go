package draduel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	shards = 4
	// stillFor is how long no further pod may be bound before the play ends: longer than the longest pause after a
	// failed attempt.
	stillFor = 20 * time.Second
	// lookEvery is how often the number of bound pods is looked at.
	lookEvery = 500 * time.Millisecond
)

// duel is one play of one contender.
type duel struct {
	options
	*contend.Ground
	programs  harness.Programs
	contender string
	// member processes of Berth, by name, and where their stores are.
	members        map[string]*harness.Berth
	nats, etcd     string
	killed, healed bool
	faults         []string
}

func (d *duel) play(ctx context.Context) (r result, err error) {
	d.Ground, err = contend.NewGround(d.programs, namespace)
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	if err != nil {
		return r, err
	}
	nodes, err := d.File("nodes.yaml", d.nodeFile())
	if err != nil {
		return r, err
	}
	if err := d.StartCluster(ctx, harness.ClusterConfig{Nodes: nodes, NoKubelets: true}); err != nil {
		return r, err
	}
	if err := d.createObjects(ctx, d.Cluster.Client); err != nil {
		return r, err
	}
	start := d.startUpstream
	if d.contender == berth {
		start = d.startBerth
	}
	if err := start(ctx); err != nil {
		return r, err
	}
	return d.fill(ctx)
}

func (d *duel) startUpstream(ctx context.Context) error {
	for _, name := range schedulers {
		config, err := d.File(name+".yaml", contend.Profiles(name))
		if err != nil {
			return err
		}
		peer, err := d.Cluster.StartPeer(ctx, harness.PeerConfig{Name: "kube-scheduler-" + name, Config: config})
		if err != nil {
			return err
		}
		d.Add(peer.Stop)
	}
	return nil
}

func (d *duel) startBerth(ctx context.Context) error {
	var err error
	if d.Config, err = d.File("config.yaml", contend.Profiles(schedulers...)); err != nil {
		return err
	}
	for name, url := range map[string]*string{"etcd": &d.etcd, "nats": &d.nats} {
		store, err := d.programs.StartStore(ctx, name, filepath.Join(d.Dir, name))
		if err != nil {
			return err
		}
		d.Add(store.Stop)
		*url = store.URL
	}
	d.members = map[string]*harness.Berth{}
	for _, service := range []struct {
		name  string
		count int
	}{{"queue", 2}, {"scheduler", shards}, {"binder", 2}} {
		for i := range service.count {
			if err := d.start(ctx, service.name, fmt.Sprintf("%s-%d", service.name, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts one process of Berth, which ends with the play at the latest.
func (d *duel) start(ctx context.Context, service, name string) error {
	cfg := harness.RunConfig{
		Service: service, Name: name, NATS: d.nats, Etcd: d.etcd, LogDir: d.Dir, Args: []string{"--config", d.Config},
	}
	if service != "scheduler" {
		cfg.Kubeconfig = d.Cluster.Kubeconfig
	}
	member, err := d.programs.Run(ctx, cfg)
	if err != nil {
		return err
	}
	d.members[name] = member
	d.Add(member.Stop)
	return nil
}

// breaks kills a shard and a binder when a third is bound, and starts them again when two thirds are.
func (d *duel) breaks(ctx context.Context, bound int) error {
	victims := []string{"scheduler-0", "binder-0"}
	switch {
	case d.contender != berth:
	case !d.killed && bound >= d.pods()/3:
		d.killed = true
		for _, name := range victims {
			d.members[name].Kill()
		}
		d.faults = append(d.faults, fmt.Sprintf("%s killed at %d bound", strings.Join(victims, " and "), bound))
	case d.killed && !d.healed && bound >= 2*d.pods()/3:
		d.healed = true
		for _, name := range victims {
			service, _, _ := strings.Cut(name, "-")
			if err := d.start(ctx, service, name+"-again"); err != nil {
				return err
			}
		}
		d.faults = append(d.faults, fmt.Sprintf("both started again at %d bound", bound))
	}
	return nil
}

// fill creates all pods at once, waits until no more are bound, counts, and empties the cluster.
func (d *duel) fill(ctx context.Context) (r result, err error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := harness.WatchBinds(watching, d.Cluster.Client, namespace)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := harness.CreatePods(ctx, d.Cluster.Client, d.load()); err != nil {
		return r, err
	}
	if r.took, err = d.settle(ctx, seen, began); err != nil {
		return r, err
	}
	if r.full, err = d.account(ctx); err != nil {
		return r, err
	}
	r.faults = d.faults
	if err := d.clear(ctx); err != nil {
		return r, err
	}
	r.left, err = d.empty(ctx)
	return r, err
}

// settle returns when every pod that has to be bound is bound, or when binds have stopped: with devices given away
// twice, pods are left over for which no scheduler finds one.
func (d *duel) settle(ctx context.Context, seen *harness.Binds, began time.Time) (time.Duration, error) {
	want, last, at := d.pods()+d.exclusive, -1, began
	for {
		n, err := seen.Count()
		if err != nil {
			return 0, err
		}
		if n != last {
			last, at = n, time.Now()
		}
		if err := d.breaks(ctx, n); err != nil {
			return 0, err
		}
		switch {
		case n >= want && time.Since(at) > stillFor, n > 0 && n < want && time.Since(at) > 3*stillFor:
			return at.Sub(began), nil
		case time.Since(began) > d.limit:
			return 0, fmt.Errorf("%d of %d pods are bound after %s", n, want, d.limit)
		}
		if err := bench.Pause(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
}

func (d *duel) account(ctx context.Context) (account, error) {
	pods, err := d.Cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return account{}, err
	}
	claims, err := d.claimsNow(ctx)
	if err != nil {
		return account{}, err
	}
	return count(pods.Items, claims), nil
}

func (d *duel) claimsNow(ctx context.Context) ([]resourcev1.ResourceClaim, error) {
	list, err := d.Cluster.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// clear deletes all pods, one by one: the API server ends a request that deletes thousands of them after a
// minute.
func (d *duel) clear(ctx context.Context) error {
	pods := d.Cluster.Client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletions)
	for i := range list.Items {
		group.Go(func() error {
			err := pods.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// empty waits until no claim has devices, and returns how many still have when time is up.
func (d *duel) empty(ctx context.Context) (left int, err error) {
	waited := harness.Eventually(ctx, d.limit, "no claim has devices", func(ctx context.Context) (string, error) {
		claims, err := d.claimsNow(ctx)
		if err != nil {
			return "", err
		}
		if left = count(nil, claims).allocated; left > 0 {
			return fmt.Sprint(left), nil
		}
		return "", nil
	})
	if left > 0 && ctx.Err() == nil {
		return left, nil // that is the finding
	}
	return left, waited
}
