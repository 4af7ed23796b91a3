import jakarta.jms.*;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Enumeration;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Programs with Qpid JMS, one for each rule: the methods whose names begin with "rule". Run with the URL of the
 * servers, and the name of a method to run only that; prints "ok NAME" or "failed NAME: why" for each.
 */
public class Rules {
    private static final long WAIT_MS = 20_000;
    private static final long SHORT_MS = 300;
    private final String url;
    private final List<Connection> open = new ArrayList<>();

    Rules(String url) {
        this.url = url;
    }

    public static void main(String[] args) throws Exception {
        Method[] methods = Rules.class.getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (args.length > 1 ? !method.getName().equals(args[1]) : !method.getName().startsWith("rule")) {
                continue;
            }
            Rules rules = new Rules(args[0]);
            try {
                method.invoke(rules);
                System.out.println("ok " + method.getName());
            } catch (InvocationTargetException failure) {
                Throwable cause = failure.getCause();
                System.out.println("failed " + method.getName() + ": " + cause + " at " + where(cause));
            }
            rules.closeAll();
        }
        System.exit(0);
    }

    private static String where(Throwable cause) {
        for (StackTraceElement each : cause.getStackTrace()) {
            boolean part = each.getMethodName().equals("check") || each.getMethodName().equals("equal");
            if (each.getClassName().equals("Rules") && !part) {
                return "line " + each.getLineNumber();
            }
        }
        return "?";
    }

    // Parts

    private Connection connect(String options, String clientId) throws JMSException {
        JmsConnectionFactory factory = new JmsConnectionFactory("root", "root", url + options(options));
        Connection connection = factory.createConnection();
        open.add(connection);
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.start();
        return connection;
    }

    private String options(String options) {
        return url.contains("?") ? options.replace('?', '&') : options;
    }

    private Connection connect() throws JMSException {
        return connect("", null);
    }

    private void closeAll() {
        for (Connection each : open) {
            try {
                each.close();
            } catch (JMSException ignored) {
                // It was closed by the rule, or by the server.
            }
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void equal(Object found, Object wanted) {
        check(wanted == null ? found == null : wanted.equals(found), "found " + found + ", not " + wanted);
    }

    private static String text(Message message) throws JMSException {
        return message == null ? null : ((TextMessage) message).getText();
    }

    private static void send(Session session, Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String each : texts) {
            producer.send(session.createTextMessage(each));
        }
        producer.close();
    }

    private static void drain(Session session, Queue queue) throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        while (consumer.receive(SHORT_MS) != null) {
            // What another rule has left.
        }
        consumer.close();
    }

    private Session auto() throws JMSException {
        return connect().createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    // Rules

    public void ruleAllKindsOfBodies() throws JMSException {
        Session session = auto();
        Queue queue = session.createQueue("bodies");
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        producer.send(session.createTextMessage("é"));
        equal(text(consumer.receive(WAIT_MS)), "é");
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(7);
        bytes.writeUTF("x");
        producer.send(bytes);
        BytesMessage gotBytes = (BytesMessage) consumer.receive(WAIT_MS);
        equal(gotBytes.readInt(), 7);
        equal(gotBytes.readUTF(), "x");
        MapMessage map = session.createMapMessage();
        map.setInt("int", 1);
        map.setLong("long", 2);
        map.setByte("byte", (byte) 3);
        map.setFloat("float", 1.5f);
        map.setChar("char", 'c');
        map.setBytes("bytes", new byte[] {1, 2});
        producer.send(map);
        MapMessage gotMap = (MapMessage) consumer.receive(WAIT_MS);
        equal(gotMap.getObject("int"), 1);
        equal(gotMap.getObject("long"), 2L);
        equal(gotMap.getObject("byte"), (byte) 3);
        equal(gotMap.getObject("float"), 1.5f);
        equal(gotMap.getChar("char"), 'c');
        equal(gotMap.getBytes("bytes").length, 2);
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(1);
        stream.writeString("two");
        stream.writeDouble(3.0);
        producer.send(stream);
        StreamMessage gotStream = (StreamMessage) consumer.receive(WAIT_MS);
        equal(gotStream.readInt(), 1);
        equal(gotStream.readString(), "two");
        equal(gotStream.readDouble(), 3.0);
        producer.send(session.createObjectMessage(new int[] {4, 5}));
        int[] object = (int[]) ((ObjectMessage) consumer.receive(WAIT_MS)).getObject();
        equal(object[1], 5);
        producer.send(session.createMessage());
        Message plain = consumer.receive(WAIT_MS);
        check(plain != null && !(plain instanceof TextMessage), "a message without a body is none: " + plain);
    }

    public void ruleHeadersAndPropertiesKeepTheirTypes() throws JMSException {
        Session session = auto();
        Queue queue = session.createQueue("headers");
        MessageConsumer consumer = session.createConsumer(queue);
        TextMessage message = session.createTextMessage("x");
        message.setIntProperty("int", 1);
        message.setLongProperty("long", 1L);
        message.setShortProperty("short", (short) 2);
        message.setByteProperty("byte", (byte) 3);
        message.setFloatProperty("float", 0.5f);
        message.setDoubleProperty("double", 0.25);
        message.setBooleanProperty("yes", true);
        message.setStringProperty("text", "t");
        message.setJMSCorrelationID("c 1");
        message.setJMSType("kind");
        message.setJMSReplyTo(session.createTopic("prices"));
        MessageProducer producer = session.createProducer(queue);
        producer.setPriority(7);
        producer.setTimeToLive(60_000);
        producer.send(message);
        Message got = consumer.receive(WAIT_MS);
        equal(got.getObjectProperty("int"), 1);
        equal(got.getObjectProperty("long"), 1L);
        equal(got.getObjectProperty("short"), (short) 2);
        equal(got.getObjectProperty("byte"), (byte) 3);
        equal(got.getObjectProperty("float"), 0.5f);
        equal(got.getObjectProperty("double"), 0.25);
        equal(got.getBooleanProperty("yes"), true);
        equal(got.getStringProperty("text"), "t");
        equal(got.getJMSCorrelationID(), "c 1");
        equal(got.getJMSType(), "kind");
        equal(got.getJMSPriority(), 7);
        equal(got.getJMSMessageID(), message.getJMSMessageID());
        equal(got.getJMSTimestamp(), message.getJMSTimestamp());
        equal(got.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
        equal(got.getJMSRedelivered(), false);
        equal(got.getIntProperty("JMSXDeliveryCount"), 1);
        check(got.getJMSReplyTo() instanceof Topic, "the reply is a " + got.getJMSReplyTo());
        check(Math.abs(got.getJMSExpiration() - message.getJMSExpiration()) < 5000, "it expires at another time");
        equal(((Queue) got.getJMSDestination()).getQueueName(), "headers");
    }

    public void ruleSelectors() throws JMSException {
        Session session = auto();
        Queue queue = session.createQueue("selectors");
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 6; number++) {
            Message message = session.createTextMessage("" + number);
            message.setIntProperty("number", number);
            producer.send(message);
        }
        MessageConsumer odd = session.createConsumer(queue, "number = 1 OR number = 3");
        equal(text(odd.receive(WAIT_MS)), "1");
        equal(text(odd.receive(WAIT_MS)), "3");
        equal(odd.receive(SHORT_MS), null);
        try {
            session.createConsumer(queue, "number = ");
            check(false, "a wrong selector was taken");
        } catch (InvalidSelectorException known) {
            check(true, "as it should be");
        }
        odd.close();
        drain(session, queue);
    }

    public void ruleClientAcknowledgeAndRecover() throws JMSException {
        Session session = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("client");
        send(session, queue, "a", "b", "c");
        MessageConsumer consumer = session.createConsumer(queue);
        equal(text(consumer.receive(WAIT_MS)), "a");
        Message second = consumer.receive(WAIT_MS);
        second.acknowledge();
        Message third = consumer.receive(WAIT_MS);
        equal(third.getJMSRedelivered(), false);
        session.recover();
        third = consumer.receive(WAIT_MS);
        equal(text(third), "c");
        equal(third.getJMSRedelivered(), true);
        equal(third.getIntProperty("JMSXDeliveryCount"), 2);
        third.acknowledge();
        equal(consumer.receive(SHORT_MS), null);
    }

    public void ruleWhatIsNotAcknowledgedComesAgain() throws JMSException {
        Connection first = connect();
        Session session = first.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("again");
        send(session, queue, "a", "b");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(WAIT_MS).acknowledge();
        equal(text(consumer.receive(WAIT_MS)), "b");
        first.close();
        MessageConsumer other = auto().createConsumer(queue);
        Message message = other.receive(WAIT_MS);
        equal(text(message), "b");
        equal(message.getJMSRedelivered(), true);
        equal(other.receive(SHORT_MS), null);
    }

    public void ruleIndividualAcknowledge() throws JMSException {
        Connection first = connect();
        Session session = first.createSession(false, 101);
        Queue queue = session.createQueue("individual");
        send(session, queue, "a", "b", "c");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(WAIT_MS);
        consumer.receive(WAIT_MS).acknowledge();
        consumer.receive(WAIT_MS);
        first.close();
        MessageConsumer other = auto().createConsumer(queue);
        equal(text(other.receive(WAIT_MS)), "a");
        equal(text(other.receive(WAIT_MS)), "c");
        equal(other.receive(SHORT_MS), null);
    }

    public void ruleDupsOkAndManyMessages() throws JMSException {
        Session session = connect().createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        Queue queue = session.createQueue("many");
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        int count = 3000;
        for (int number = 0; number < count; number++) {
            producer.send(session.createTextMessage("" + number));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < count; number++) {
            equal(text(consumer.receive(WAIT_MS)), "" + number);
        }
        equal(consumer.receive(SHORT_MS), null);
    }

    public void ruleTransactions() throws JMSException {
        Session session = connect().createSession(true, Session.SESSION_TRANSACTED);
        Session outside = auto();
        Queue in = session.createQueue("in");
        Queue out = session.createQueue("out");
        send(outside, in, "1", "2");
        MessageConsumer consumer = session.createConsumer(in);
        MessageConsumer results = outside.createConsumer(out);
        send(session, out, text(consumer.receive(WAIT_MS)) + "!");
        equal(results.receive(SHORT_MS), null);
        session.rollback();
        equal(results.receive(SHORT_MS), null);
        Message again = consumer.receive(WAIT_MS);
        equal(text(again), "1");
        equal(again.getJMSRedelivered(), true);
        send(session, out, text(again) + "!");
        Message second = consumer.receive(WAIT_MS);
        equal(text(second), "2");
        send(session, out, text(second) + "!");
        session.commit();
        equal(text(results.receive(WAIT_MS)), "1!");
        equal(text(results.receive(WAIT_MS)), "2!");
        session.commit();
        equal(consumer.receive(SHORT_MS), null);
    }

    public void ruleTransactionOfALostConnection() throws JMSException {
        Connection first = connect();
        Session session = first.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("lost");
        send(session, queue, "staged");
        first.close();
        Session other = auto();
        equal(other.createConsumer(queue).receive(SHORT_MS), null);
    }

    public void ruleTemporaryQueueAnswers() throws JMSException {
        Session server = auto();
        MessageConsumer requests = server.createConsumer(server.createQueue("requests"));
        Session session = auto();
        TemporaryQueue answers = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(answers);
        TextMessage question = session.createTextMessage("2 + 2");
        question.setJMSReplyTo(answers);
        session.createProducer(session.createQueue("requests")).send(question);
        Message request = requests.receive(WAIT_MS);
        MessageProducer anywhere = server.createProducer(null);
        anywhere.send(request.getJMSReplyTo(), server.createTextMessage("4"));
        equal(text(consumer.receive(WAIT_MS)), "4");
        consumer.close();
        answers.delete();
    }

    public void ruleTemporaryTopic() throws JMSException {
        Session session = auto();
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer consumer = session.createConsumer(topic);
        send(session, topic, "news");
        equal(text(consumer.receive(WAIT_MS)), "news");
    }

    public void ruleBrowser() throws JMSException {
        Session session = auto();
        Queue queue = session.createQueue("browsed");
        send(session, queue, "a", "b", "c");
        for (int round = 0; round < 2; round++) {
            QueueBrowser browser = session.createBrowser(queue);
            Enumeration<?> found = browser.getEnumeration();
            List<String> texts = new ArrayList<>();
            while (found.hasMoreElements()) {
                texts.add(text((Message) found.nextElement()));
            }
            browser.close();
            equal(texts, List.of("a", "b", "c"));
        }
        drain(session, queue);
    }

    public void ruleTopicsAndNoLocal() throws JMSException {
        Connection connection = connect();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("prices");
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = session.createConsumer(topic);
        MessageConsumer others = session.createConsumer(topic, null, true);
        send(session, topic, "42");
        equal(text(first.receive(WAIT_MS)), "42");
        equal(text(second.receive(WAIT_MS)), "42");
        equal(others.receive(SHORT_MS), null);
    }

    public void ruleDurableSubscription() throws JMSException {
        Connection connection = connect("", "client-1");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("prices");
        session.createDurableSubscriber(topic, "audit").close();
        connection.close();
        send(auto(), topic, "while away");
        connection = connect("", "client-1");
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableSubscriber(topic, "audit");
        equal(text(consumer.receive(WAIT_MS)), "while away");
        consumer.close();
        session.unsubscribe("audit");
        try {
            session.unsubscribe("audit");
            check(false, "a subscription that has ended was found");
        } catch (InvalidDestinationException known) {
            check(true, "as it should be");
        }
        send(auto(), topic, "to nobody");
        consumer = session.createDurableSubscriber(topic, "audit");
        equal(consumer.receive(SHORT_MS), null);
        consumer.close();
        session.unsubscribe("audit");
    }

    public void ruleSharedSubscriptions() throws JMSException {
        Session session = connect("", "client-2").createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session global = auto();
        Topic topic = session.createTopic("prices");
        MessageConsumer first = session.createSharedDurableConsumer(topic, "workers");
        MessageConsumer second = session.createSharedDurableConsumer(topic, "workers");
        MessageConsumer volatileOne = global.createSharedConsumer(topic, "volatile");
        MessageConsumer volatileTwo = global.createSharedConsumer(topic, "volatile");
        for (int number = 0; number < 20; number++) {
            send(session, topic, "" + number);
        }
        equal(count(first) + count(second), 20);
        equal(count(volatileOne) + count(volatileTwo), 20);
        first.close();
        second.close();
        session.unsubscribe("workers");
    }

    private static int count(MessageConsumer consumer) throws JMSException {
        int count = 0;
        while (consumer.receive(SHORT_MS) != null) {
            count++;
        }
        return count;
    }

    public void ruleOneConnectionForAClientId() throws JMSException {
        connect("", "only");
        try {
            connect("", "only");
            check(false, "two connections have one client id");
        } catch (InvalidClientIDException known) {
            check(true, "as it should be");
        }
    }

    public void rulePrefetchOfOneSharesTheWork() throws JMSException {
        Session slow = connect("?jms.prefetchPolicy.all=1", null).createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Session quick = connect("?jms.prefetchPolicy.all=1", null).createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = slow.createQueue("shared");
        MessageConsumer lazy = slow.createConsumer(queue);
        MessageConsumer busy = quick.createConsumer(queue);
        for (int number = 0; number < 20; number++) {
            send(quick, queue, "" + number);
        }
        Message held = lazy.receive(WAIT_MS);
        check(held != null, "nothing for the slow one");
        check(count(busy) >= 17, "the slow one keeps messages to itself");
        held.acknowledge();
        drain(slow, queue);
    }

    public void rulePullWithoutPrefetch() throws JMSException {
        Session session = connect("?jms.prefetchPolicy.all=0", null).createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue("pulled");
        MessageConsumer consumer = session.createConsumer(queue);
        equal(consumer.receiveNoWait(), null);
        send(session, queue, "a", "b", "c");
        equal(text(consumer.receiveNoWait()), "a");
        equal(text(consumer.receive(WAIT_MS)), "b");
        Message last = consumer.receive(WAIT_MS);
        equal(text(last), "c");
        equal(consumer.receive(SHORT_MS), null);
        last.acknowledge();
    }

    public void ruleListener() throws Exception {
        Session session = auto();
        Queue queue = session.createQueue("listened");
        List<String> texts = java.util.Collections.synchronizedList(new ArrayList<>());
        session.createConsumer(queue).setMessageListener(message -> {
            try {
                texts.add(text(message));
                if (texts.size() == 2) {
                    throw new RuntimeException("the second one fails once");
                }
            } catch (JMSException failure) {
                throw new RuntimeException(failure);
            }
        });
        send(auto(), queue, "a", "b", "c");
        long end = System.currentTimeMillis() + WAIT_MS;
        while (texts.size() < 4 && System.currentTimeMillis() < end) {
            Thread.sleep(10);
        }
        List<String> sorted = new ArrayList<>(texts);
        sorted.sort(null);
        equal(sorted, List.of("a", "b", "b", "c"));
    }

    public void ruleDelayAndExpiry() throws Exception {
        Session session = auto();
        Queue queue = session.createQueue("timed");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(1500);
        long sent = System.currentTimeMillis();
        producer.send(session.createTextMessage("late"));
        equal(text(consumer.receive(WAIT_MS)), "late");
        check(System.currentTimeMillis() - sent >= 1400, "it came too early");
        consumer.close();
        producer.setDeliveryDelay(0);
        producer.setTimeToLive(100);
        producer.send(session.createTextMessage("short"));
        Thread.sleep(500);
        equal(session.createConsumer(queue).receive(SHORT_MS), null);
    }

    public void ruleWhatIsNotThereIsRefused() throws JMSException {
        Session session = auto();
        try {
            session.createConsumer(session.createQueue("nowhere"));
            check(false, "a queue that is not there has a consumer");
        } catch (InvalidDestinationException known) {
            check(known.getMessage().contains("nowhere"), "says " + known);
        }
        try {
            session.createProducer(session.createQueue("nowhere"));
            check(false, "a queue that is not there has a producer");
        } catch (InvalidDestinationException known) {
            check(true, "as it should be");
        }
        send(session, session.createQueue("bodies"), "the session goes on");
        drain(session, session.createQueue("bodies"));
    }

    public void ruleWrongPassword() throws JMSException {
        try {
            new JmsConnectionFactory("root", "wrong", url).createConnection().start();
            check(false, "a wrong password was taken");
        } catch (JMSSecurityException known) {
            check(true, "as it should be");
        }
    }

    // Run alone, with a list of servers of which the master is killed meanwhile

    public void killedMasterLosesNothing() throws JMSException {
        Session session = auto();
        Queue queue = session.createQueue("orders");
        MessageProducer producer = session.createProducer(queue);
        int count = 400;
        for (int number = 0; number < count; number++) {
            producer.send(session.createTextMessage("" + number));
            if (number == 100) {
                System.out.println("sent some");
            }
        }
        Session reader = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = reader.createConsumer(queue);
        java.util.Set<String> found = new java.util.LinkedHashSet<>();
        for (Message got = consumer.receive(WAIT_MS); got != null; got = consumer.receive(2 * SHORT_MS)) {
            found.add(text(got));
            got.acknowledge();
        }
        int next = 0;
        for (String each : found) {
            equal(each, "" + next++);
        }
        equal(next, count);
    }
}
