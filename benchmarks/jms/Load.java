import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Messages from a producer through a queue to a consumer: URL USER PASSWORD QUEUE WINDOW SECONDS SIZE. Prints
 * the messages a second, and then each latency in microseconds.
 */
public class Load {
    private static final int END = 4;

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new JmsConnectionFactory(arguments[1], arguments[2], arguments[0]);
        int window = Integer.parseInt(arguments[4]);
        long forNs = (long) (Double.parseDouble(arguments[5]) * 1e9);
        byte[] body = new byte[Integer.parseInt(arguments[6])];
        Semaphore room = new Semaphore(window);
        List<Long> latencies = new ArrayList<>();
        try (Connection sending = factory.createConnection(); Connection receiving = factory.createConnection()) {
            Session consuming = receiving.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = consuming.createConsumer(queue(consuming, arguments[3]));
            receiving.start();
            Thread thread = new Thread(() -> receive(consumer, room, latencies));
            thread.start();
            Session session = sending.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(queue(session, arguments[3]));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            long begun = System.nanoTime();
            while (System.nanoTime() - begun < forNs) {
                room.acquire();
                send(session, producer, body);
            }
            send(session, producer, new byte[END]);
            thread.join(60_000);
            double tookS = (System.nanoTime() - begun) / 1e9;
            StringBuilder out = new StringBuilder().append(latencies.size() / tookS);
            for (long latency : latencies) {
                out.append(' ').append(latency / 1000);
            }
            System.out.println(out);
        }
    }

    private static Queue queue(Session session, String name) throws Exception {
        return session.createQueue(name);
    }

    private static void send(Session session, MessageProducer producer, byte[] body) throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.setLongProperty("sent", System.nanoTime());
        message.writeBytes(body);
        producer.send(message);
    }

    private static void receive(MessageConsumer consumer, Semaphore room, List<Long> latencies) {
        try {
            while (true) {
                BytesMessage message = (BytesMessage) consumer.receive(60_000);
                if (message == null || message.getBodyLength() == END) {
                    return;
                }
                latencies.add(System.nanoTime() - message.getLongProperty("sent"));
                room.release();
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
