package flashsale_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
)

// clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id, addr, master string // master is "-" for one
	first, last      int64  // slots of a master
}

func clusterNodes(t *testing.T, c rueidis.Client) (nodes []clusterNode) {
	t.Helper()
	text, err := c.Do(t.Context(), c.B().ClusterNodes().Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // RESP3 says what kind of text it is
		f := strings.Fields(line)
		n := clusterNode{id: f[0], master: f[3]}
		n.addr, _, _ = strings.Cut(f[1], "@")
		if len(f) > 8 {
			if _, err := fmt.Sscanf(f[8], "%d-%d", &n.first, &n.last); err != nil {
				t.Fatal(line, err)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// M6, F60: sales live on several nodes of a cluster, each with its own history. When a replica takes one over, the gates
// on it are loaded anew, and only those.
func TestClusterFailover(t *testing.T) {
	privateRedis(t, "redis") // makes the machine
	out := own.up(t, "up", "cluster")
	addr := regexp.MustCompile(`TANDIAN_TEST_REDIS_CLUSTER=(\S+)`).FindStringSubmatch(out)[1]
	w := newTown(t)
	p := w.process(t, rueidis.ClientOption{InitAddress: []string{addr}})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	direct := func(n clusterNode) rueidis.Client {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{n.addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	var nodes []clusterNode
	var replica, primary clusterNode
	eventually(t, "who is a primary is known, and all of them are empty", func() bool {
		nodes = clusterNodes(t, client)
		for _, n := range nodes {
			if n.master != "-" {
				replica = n
			} else if direct(n).Do(t.Context(), client.B().Flushall().Build()).Error() != nil {
				return false
			}
		}
		return true
	})
	for _, n := range nodes {
		if n.id == replica.master {
			primary = n
		}
	}
	on := map[string]id.ID{} // a sale of each master
	sold := map[id.ID]map[id.ID]id.ID{}
	for len(on) < 3 {
		saleID := p.open(t, 10, 1)
		slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key("{sale:"+saleID.String()+"}:meta").Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.master == "-" && n.first <= slot && slot <= n.last && on[n.id] == 0 {
				on[n.id] = saleID
				sold[saleID] = sellThree(t, p)
			}
		}
	}
	heir := direct(replica)
	caughtUp(t, direct(primary), heir)
	loads := p.loads(t, "")
	// By decree: an election is given up, and not held again, on a machine that is slow for five seconds.
	if err := heir.Do(t.Context(), heir.B().ClusterFailover().Takeover().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica has taken over", func() bool {
		info, err := heir.Do(t.Context(), heir.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(info, "role:master")
	})
	for master, saleID := range on {
		w.sale = saleID
		p.known(t, sold[saleID])
		var more map[id.ID]id.ID
		eventually(t, "the client has found the new master", func() bool {
			user := id.ID(4)
			orderID, err := p.Grab(t.Context(), user, saleID, key(user))
			more = map[id.ID]id.ID{user: orderID}
			return err == nil
		})
		p.settle(t)
		p.atRest(t, sold[saleID], more)
		if n := p.loads(t, flashsale.CauseForeign); master == primary.id && n == 0 {
			t.Fatal("a gate on another server is not to be trusted")
		}
	}
	if n, foreign := p.loads(t, "")-loads, p.loads(t, flashsale.CauseForeign); n != foreign {
		t.Fatalf("%d gates loaded, %d of them for their server", n, foreign)
	}
}
