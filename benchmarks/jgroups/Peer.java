import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.protocols.*;
import org.jgroups.protocols.pbcast.*;
import org.jgroups.stack.Protocol;

/** One member of a JGroups cluster with total order (SEQUENCER), for benchmarks/groups.py. */
public class Peer {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        int range = Integer.parseInt(args[1]);
        int members = Integer.parseInt(args[2]);
        int count = Integer.parseInt(args[3]);
        int payload = Integer.parseInt(args[4]);
        boolean publisher = args[5].equals("publisher");
        java.net.InetAddress host = java.net.InetAddress.getLoopbackAddress();
        List<java.net.InetSocketAddress> hosts = new ArrayList<>();
        for (int at = 0; at < range; at++) hosts.add(new java.net.InetSocketAddress(host, port + at));
        TCP tcp = new TCP();
        tcp.setBindAddress(host);
        tcp.setBindPort(port);
        tcp.setPortRange(range);
        TCPPING ping = new TCPPING();
        ping.setInitialHosts(hosts);
        ping.setPortRange(0);
        Protocol[] stack = {
            tcp, ping, new MERGE3(), new FD_SOCK2(), new FD_ALL3(), new VERIFY_SUSPECT2(),
            new NAKACK2().useMcastXmit(false), new UNICAST3(), new STABLE(), new GMS(), new UFC(), new MFC(),
            new SEQUENCER(), new FRAG4()
        };
        CountDownLatch all = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger seen = new AtomicInteger();
        JChannel channel = new JChannel(stack);
        channel.setDiscardOwnMessages(publisher);
        channel.setReceiver(new Receiver() {
            public void receive(Message message) {
                if (seen.incrementAndGet() == count) done.countDown();
            }

            public void viewAccepted(View view) {
                if (view.size() == members + 1) all.countDown();
            }
        });
        channel.connect("bench");
        all.await();
        System.out.println("joined");
        if (publisher) {
            System.in.read();
            byte[] data = new byte[payload];
            for (int at = 0; at < count; at++) channel.send(new BytesMessage(null, data));
            System.in.read();
        } else {
            done.await();
            System.out.println(System.currentTimeMillis() / 1000.0);
            System.in.read();
        }
        channel.close();
    }
}
