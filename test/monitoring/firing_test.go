package monitoring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// history is a storage of series in the notation of Prometheus' own tests: "1x240" is a value and 240 more of it,
// "0+2x240" grows by two each time, and "_x120" is 120 scrapes that failed.
type history []pastSeries

type pastSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func parseHistory(t *testing.T, lines string) history {
	t.Helper()
	var all history
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		set, values, err := parser.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if len(values) != scrapes {
			t.Fatalf("%s: %d scrapes, want %d", line, len(values), scrapes)
		}
		series := pastSeries{labels: set}
		for i, v := range values {
			if !v.Omitted {
				series.samples = append(series.samples, sample{at: int64(i) * interval.Milliseconds(), value: v.Value})
			}
		}
		all = append(all, series)
	}
	slices.SortFunc(all, func(a, b pastSeries) int { return labels.Compare(a.labels, b.labels) })
	return all
}

// Querier implements storage.Queryable.
func (h history) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: h.choose}, nil
}

func (h history) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range h {
		fits := !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) })
		if fits {
			found = append(found, storage.NewListSeries(one.labels, one.samples))
		}
	}
	return &seriesSet{rest: found}
}

// Two members of a store that run all the time, and one that ran for the first half of two hours. After a restart a pod
// has another address.
const (
	etcdRuns = `
		etcd_server_has_leader{job="berth-etcd",namespace="a",pod="etcd-0",instance="1"} 1x240
		etcd_server_has_leader{job="berth-etcd",namespace="a",pod="etcd-1",instance="2"} 1x240`
	etcdGone = `
		etcd_server_has_leader{job="berth-etcd",namespace="a",pod="etcd-2",instance="3"} 1x120 _x120`
	etcdBack = `
		etcd_server_has_leader{job="berth-etcd",namespace="a",pod="etcd-2",instance="4"} _x140 1x100`
	natsRuns = `
		nats_healthz_status_value{job="berth-nats",namespace="a",pod="nats-0",value="ok"} 1x240`
	natsGone = `
		nats_healthz_status_value{job="berth-nats",namespace="a",pod="nats-1",value="ok"} 1x120 _x120
		nats_healthz_status_value{job="berth-nats",namespace="a",pod="nats-1",value="unreachable"} _x121 0x119`
)

// expires is a certificate with so many days left when the samples end, two hours after the beginning of Unix time.
func expires(days int) string {
	at := int((scrapes-1)*interval/time.Second) + days*24*60*60
	return fmt.Sprintf("\nberth_certificate_not_after_timestamp_seconds{job=%q,connection=%q,kind=%q} %dx240",
		"berth-queue", "etcd", fmt.Sprint(days), at)
}

// aboutStores is in the queries of the alerts that are played here, and so are those of whatever is not there.
var aboutStores = regexp.MustCompile(`\b(etcd|nats|berth_certificate|berth_dependency|berth_ledger_authentication)_|` +
	`absent|_refused_total|too_large|hold-overdue`)

// Running shards, binders and a queue, and a kube-scheduler.
const (
	shardsRun   = `up{job="berth-scheduler",pod="s-0"} 1x240` + "\n" + `up{job="berth-scheduler",pod="s-1"} 1x200 0x39`
	bindersRun  = `up{job="berth-binder",pod="b-0"} 1x240`
	onePodRuns  = `up{job="berth-single",pod="one-0"} 1x240`
	othersRun   = `up{job="kube-scheduler",pod="k-0"} 1x240`
	shardsGone  = `up{job="berth-scheduler",pod="s-0"} 1x200 0x39`
	bindersGone = `up{job="berth-binder",pod="b-0"} 1x200 _x40`
	queueLeads  = `berth_leads{job="berth-queue",service="queue",pod="q-0"} 1x240` + "\n" +
		`berth_leads{job="berth-queue",service="queue",pod="q-1"} 0x240`
	queueGone = `berth_leads{job="berth-queue",service="queue",pod="q-0"} 1x200 _x40`
)

// reaches holds the samples of a pod about NATS: first that it answered, then those of the last scrapes.
func reaches(pod, lately string) string {
	return "\n" + `berth_dependency_up{job="berth-queue",namespace="a",pod="` + pod + `",dependency="nats"} 1x200 ` +
		lately + "\n" +
		`berth_dependency_up{job="berth-queue",namespace="a",pod="` + pod + `",dependency="etcd"} 1x240`
}

// etcdDisk are one sync a second and one commit a second, of which all but a part last at most these seconds.
func etcdDisk(fsync, commit string) string {
	lines := ""
	for metric, bound := range map[string]string{
		"etcd_disk_wal_fsync_duration_seconds_bucket": fsync, "etcd_disk_backend_commit_duration_seconds_bucket": commit,
	} {
		for _, le := range []string{"0.008", "0.064", "0.128", "0.256", "0.512", "+Inf"} {
			growth := "0"
			if le == "+Inf" || le >= bound {
				growth = "30"
			}
			lines += metric + `{job="berth-etcd",namespace="a",pod="etcd-0",le="` + le + `"} 0+` + growth + "x240\n"
		}
	}
	return lines
}

func etcdDatabase(size string) string {
	return `
		etcd_mvcc_db_total_size_in_bytes{job="berth-etcd",namespace="a",pod="etcd-0"} ` + size + `x240
		etcd_server_quota_backend_bytes{job="berth-etcd",namespace="a",pod="etcd-0"} 100x240`
}

func jetStream(used string) string {
	return `
		nats_varz_jetstream_stats_storage{job="berth-nats",namespace="a",pod="nats-0",server_id="nats-0"} ` + used + `x240
		nats_varz_jetstream_config_max_storage{job="berth-nats",namespace="a",pod="nats-0",server_id="nats-0"} 100x240`
}

// alertSeries are series, by alert, on which it fires and on which it is silent.
var alertSeries = map[string]struct{ fires, silent []string }{
	"BerthCertificateExpires": {
		fires: []string{expires(20), expires(3)}, silent: []string{expires(22), ""},
	},
	"BerthCertificateExpiresSoon": {
		fires: []string{expires(3), expires(22) + expires(3)}, silent: []string{expires(20)},
	},
	"BerthEtcdNoLeader": {
		fires: []string{etcdRuns + `
			etcd_server_has_leader{job="berth-etcd",pod="etcd-2"} 1x200 0x39`},
		silent: []string{etcdRuns, etcdRuns + etcdGone, `etcd_server_has_leader{job="kube-etcd",pod="etcd"} 0x240`},
	},
	"BerthEtcdMemberDown": {
		fires: []string{etcdRuns + etcdGone, etcdGone}, silent: []string{etcdRuns, etcdRuns + etcdGone + etcdBack},
	},
	"BerthEtcdDatabaseLarge": {fires: []string{etcdDatabase("71")}, silent: []string{etcdDatabase("69")}},
	"BerthEtcdDatabaseFull":  {fires: []string{etcdDatabase("91")}, silent: []string{etcdDatabase("89")}},
	"BerthEtcdDiskSlow": {
		fires:  []string{etcdDisk("0.128", "0.008"), etcdDisk("0.008", "0.512")},
		silent: []string{etcdDisk("0.008", "0.064")},
	},
	"BerthNATSDown":            {fires: []string{natsGone}, silent: []string{natsRuns, natsRuns + natsGone, ""}},
	"BerthNATSServerDown":      {fires: []string{natsGone, natsRuns + natsGone}, silent: []string{natsRuns, ""}},
	"BerthJetStreamNearlyFull": {fires: []string{jetStream("81")}, silent: []string{jetStream("79")}},
	"BerthNATSSlowConsumers": {
		fires:  []string{`nats_varz_slow_consumers{job="berth-nats",pod="nats-0"} 0x220 1x19`},
		silent: []string{`nats_varz_slow_consumers{job="berth-nats",pod="nats-0"} 0x100 1x139`},
	},
	"BerthNoShardRuns": {
		fires: []string{shardsGone, othersRun, ""}, silent: []string{shardsRun, onePodRuns},
	},
	"BerthNoBinderRuns": {
		fires: []string{bindersGone, shardsRun, ""}, silent: []string{bindersRun, onePodRuns},
	},
	"BerthNoQueueLeads": {
		fires:  []string{queueGone, `berth_leads{job="berth-queue",service="queue"} 0x240`, ""},
		silent: []string{queueLeads},
	},
	"BerthDependencyDown": {
		fires: []string{reaches("a", "0x39"), reaches("a", "0x39") + reaches("b", "0x39")},
		// A pod that is gone says nothing.
		silent: []string{reaches("a", "1x39"), reaches("a", "0x39") + reaches("b", "1x39"), reaches("a", "_x40"), ""},
	},
	"BerthDependencyUnreachable": {
		fires:  []string{reaches("a", "0x39") + reaches("b", "1x39")},
		silent: []string{reaches("a", "0x39") + reaches("b", "0x39"), reaches("a", "1x39"), ""},
	},
	"BerthLedgerOpen": {
		fires: []string{`berth_ledger_authentication_off{job="berth-queue",pod="a"} 0x240
			berth_ledger_authentication_off{job="berth-binder",pod="b"} 1x240`},
		silent: []string{`berth_ledger_authentication_off{job="berth-queue",pod="a"} 1x200 0x39`, ""},
	},
	"BerthLogRefuses": {
		fires:  []string{`berth_log_refused_total{job="berth-queue",service="queue",stream="FACTS"} 0x220 1x19`},
		silent: []string{`berth_log_refused_total{job="berth-queue",service="queue",stream="FACTS"} 0x100 1x139`},
	},
	"BerthObjectsTooLarge": {
		fires:  []string{`berth_objects_too_large_total{job="berth-queue",kind="pod",result="reduced"} 0x220 1x19`},
		silent: []string{`berth_objects_too_large_total{job="berth-queue",kind="pod",result="reduced"} 0x100 1x139`},
	},
	"BerthAnomaly": {
		fires:  []string{`berth_anomalies{job="berth-queue",rule="pod-overdue"} 1x240`},
		silent: []string{`berth_anomalies{job="berth-queue",rule="hold-overdue"} 1x240`},
	},
	"BerthPromisesOld": {
		fires: []string{`berth_anomalies{job="berth-queue",rule="hold-overdue"} 0x200 1x39`},
		// A reservation that waits for its volumes is old, and no anomaly.
		silent: []string{`berth_anomalies{job="berth-queue",rule="hold-overdue"} 0x240
			berth_ledger_oldest_entry_seconds{job="berth-queue",role="reservation",state="committed"} 500x240`},
	},
}

// TestAlertsFire: alerts about stores, certificates, and what is away, on what makes them fire and on what does not.
func TestAlertsFire(t *testing.T) {
	engine, exprs, unplayed := newEngine(t), map[string]string{}, map[string]bool{}
	for _, q := range alerts(t) {
		exprs[q.where] = q.expr
		if aboutStores.MatchString(q.expr) {
			unplayed[q.where] = true
		}
	}
	for alert, c := range alertSeries {
		delete(unplayed, alert)
		for i, lines := range slices.Concat(c.fires, c.silent) {
			found, err := evaluate(t.Context(), engine, parseHistory(t, lines), exprs[alert])
			if want := i < len(c.fires); err != nil || (found > 0) != want {
				t.Errorf("%s: %d series, %v: want that it fires: %t, on\n%s", alert, found, err, want, lines)
			}
		}
	}
	for alert := range unplayed {
		t.Errorf("%s: is not played", alert)
	}
}
