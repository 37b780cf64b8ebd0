package compat;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.header.GetConsumerListByGroupResponseBody;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.remoting.protocol.body.LockBatchResponseBody;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeaderV2;
import org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/**
 * Bytes made by the client library's own classes ("vectors"), and bytes of others read by them ("decode kind= hex=").
 * All values are constants, so that a vector can be recorded and compared.
 */
final class WireVectors {
    private static final String PROPERTIES = "KEYS\u0001k1 k2\u0002TAGS\u0001TagA\u0002WAIT\u0001true\u0002";

    private WireVectors() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("vectors", (o, a) -> {
            Json vectors = new Json();
            for (Map.Entry<String, byte[]> e : make().entrySet()) {
                vectors.put(e.getKey(), hex(e.getValue()));
            }
            a.raw("vectors", vectors.toString()).raw("hashes", hashes());
        });
        verbs.put("decode", (o, a) -> decode(o.text("kind"), unhex(o.text("hex")), a));
    }

    static Map<String, byte[]> make() throws Exception {
        Map<String, byte[]> all = new LinkedHashMap<>();
        for (SerializeType type : SerializeType.values()) {
            String suffix = "_" + type.name().toLowerCase(java.util.Locale.ROOT);
            commands().forEach((name, command) -> {
                command.setSerializeTypeCurrentRPC(type);
                all.put("command_" + name + suffix, bytes(command.encode()));
            });
        }
        all.put("body_heartbeat", heartbeat().encode());
        all.put("body_route", route().encode());
        all.put("body_consumer_list", consumerList().encode());
        all.put("body_lock_request", lockRequest().encode());
        LockBatchResponseBody locked = new LockBatchResponseBody();
        locked.setLockOKMQSet(new HashSet<>(Arrays.asList(new MessageQueue("Orders", "broker-a", 3))));
        all.put("body_lock_response", locked.encode());
        all.put("message_ipv4", MessageDecoder.encode(stored("10.1.2.3", "10.4.5.6"), false));
        all.put("message_ipv6", MessageDecoder.encode(stored("2001:db8::1", "2001:db8::2"), false));
        all.put("message_mixed_hosts", MessageDecoder.encode(stored("10.1.2.3", "2001:db8::2"), false));
        all.put("batch_body", MessageDecoder.encodeMessages(Arrays.asList(plain("first"), plain("second"), plain(""))));
        all.put("properties", MessageDecoder.messageProperties2String(properties()).getBytes(StandardCharsets.UTF_8));
        all.put("message_id_ipv4", messageId("10.1.2.3", 10911, 4294967297L));
        all.put("message_id_ipv6", messageId("2001:db8::1", 65535, 77L));
        return all;
    }

    private static Map<String, RemotingCommand> commands() {
        Map<String, RemotingCommand> all = new LinkedHashMap<>();
        RemotingCommand send = request(RequestCode.SEND_MESSAGE_V2,
            SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(sendHeader()));
        send.setBody("hello, body".getBytes(StandardCharsets.UTF_8));
        all.put("send_v2", send);
        RemotingCommand oneWay = request(RequestCode.SEND_MESSAGE, sendHeader());
        oneWay.setBody(new byte[] {0, 1, 2, (byte) 255});
        oneWay.markOnewayRPC();
        all.put("send_oneway", oneWay);
        PullMessageRequestHeader pull = new PullMessageRequestHeader();
        pull.setConsumerGroup("group_a");
        pull.setTopic("Orders");
        pull.setQueueId(2);
        pull.setQueueOffset(12345678901L);
        pull.setMaxMsgNums(32);
        pull.setSysFlag(3);
        pull.setCommitOffset(12345678900L);
        pull.setSuspendTimeoutMillis(15000L);
        pull.setSubscription("TagA || TagB");
        pull.setSubVersion(1700000000000L);
        pull.setExpressionType("TAG");
        all.put("pull", request(RequestCode.PULL_MESSAGE, pull));
        EndTransactionRequestHeader end = new EndTransactionRequestHeader();
        end.setProducerGroup("group_t");
        end.setTranStateTableOffset(9L);
        end.setCommitLogOffset(4096L);
        end.setCommitOrRollback(8);
        end.setFromTransactionCheck(true);
        end.setMsgId("0A0102030000000000000000000000AA");
        end.setTransactionId("0A0102030000000000000000000000AA");
        all.put("end_transaction", request(RequestCode.END_TRANSACTION, end));
        QueryConsumerOffsetRequestHeader query = new QueryConsumerOffsetRequestHeader();
        query.setConsumerGroup("group_a");
        query.setTopic("Orders");
        query.setQueueId(0);
        all.put("query_offset", request(RequestCode.QUERY_CONSUMER_OFFSET, query));
        RemotingCommand bare = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, null);
        all.put("bare", bare);
        RemotingCommand answer = RemotingCommand.createResponseCommand(SendMessageResponseHeader.class);
        SendMessageResponseHeader sent = (SendMessageResponseHeader) answer.readCustomHeader();
        sent.setMsgId("0A010203000029CC0000000000001000");
        sent.setQueueId(3);
        sent.setQueueOffset(42L);
        sent.setTransactionId("0A0102030000000000000000000000AA");
        answer.setCode(0);
        answer.setOpaque(7);
        answer.setRemark(null);
        answer.setVersion(479);
        all.put("send_answer", answer);
        RemotingCommand refused = RemotingCommand.createResponseCommand(17, "no \"topic\" für 主题 \u0001");
        refused.setOpaque(-1);
        refused.setVersion(479);
        all.put("refused", refused);
        return all;
    }

    private static RemotingCommand request(int code, CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setOpaque(1234567);
        command.setVersion(479);
        return command;
    }

    private static SendMessageRequestHeader sendHeader() {
        SendMessageRequestHeader header = new SendMessageRequestHeader();
        header.setProducerGroup("group_p");
        header.setTopic("Orders");
        header.setDefaultTopic("TBW102");
        header.setDefaultTopicQueueNums(4);
        header.setQueueId(1);
        header.setSysFlag(4);
        header.setBornTimestamp(1700000000123L);
        header.setFlag(5);
        header.setProperties(PROPERTIES);
        header.setReconsumeTimes(0);
        header.setUnitMode(false);
        header.setBatch(false);
        return header;
    }

    private static HeartbeatData heartbeat() throws Exception {
        HeartbeatData data = new HeartbeatData();
        data.setClientID("10.0.0.1@client-1");
        ProducerData producer = new ProducerData();
        producer.setGroupName("group_p");
        data.getProducerDataSet().add(producer);
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName("group_a");
        consumer.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        consumer.setMessageModel(MessageModel.CLUSTERING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        SubscriptionData subscription = new SubscriptionData();
        subscription.setTopic("Orders");
        subscription.setSubString("TagA || TagB");
        subscription.getTagsSet().addAll(Arrays.asList("TagA", "TagB"));
        subscription.getCodeSet().addAll(Arrays.asList("TagA".hashCode(), "TagB".hashCode()));
        subscription.setSubVersion(1700000000000L);
        consumer.getSubscriptionDataSet().add(subscription);
        data.getConsumerDataSet().add(consumer);
        return data;
    }

    private static TopicRouteData route() {
        TopicRouteData route = new TopicRouteData();
        QueueData queue = new QueueData();
        queue.setBrokerName("broker-a");
        queue.setReadQueueNums(4);
        queue.setWriteQueueNums(8);
        queue.setPerm(6);
        HashMap<Long, String> addresses = new HashMap<>();
        addresses.put(0L, "10.1.2.3:10911");
        addresses.put(1L, "10.1.2.4:10911");
        BrokerData broker = new BrokerData("DefaultCluster", "broker-a", addresses);
        route.setQueueDatas(new ArrayList<>(Arrays.asList(queue)));
        route.setBrokerDatas(new ArrayList<>(Arrays.asList(broker)));
        route.setFilterServerTable(new HashMap<>());
        return route;
    }

    private static GetConsumerListByGroupResponseBody consumerList() {
        GetConsumerListByGroupResponseBody body = new GetConsumerListByGroupResponseBody();
        body.setConsumerIdList(Arrays.asList("10.0.0.1@a", "10.0.0.2@b"));
        return body;
    }

    private static LockBatchRequestBody lockRequest() {
        LockBatchRequestBody body = new LockBatchRequestBody();
        body.setConsumerGroup("group_o");
        body.setClientId("10.0.0.1@client-1");
        body.setMqSet(new HashSet<>(Arrays.asList(new MessageQueue("Orders", "broker-a", 3))));
        return body;
    }

    private static Map<String, String> properties() {
        Map<String, String> properties = new TreeMap<>();
        properties.put("KEYS", "k1 k2");
        properties.put("TAGS", "TagA");
        properties.put("größe", "主题");
        return properties;
    }

    private static Message plain(String body) {
        Message message = new Message("Orders", "TagA", "key-" + body, body.getBytes(StandardCharsets.UTF_8));
        message.setFlag(7);
        return message;
    }

    private static MessageExt stored(String bornHost, String storeHost) throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic("Orders");
        message.setBody("stored body".getBytes(StandardCharsets.UTF_8));
        message.setFlag(7);
        message.setQueueId(3);
        message.setQueueOffset(41);
        message.setCommitLogOffset(4294967296L);
        message.setSysFlag((bornHost.contains(":") ? 1 << 4 : 0) | (storeHost.contains(":") ? 1 << 5 : 0));
        message.setBornTimestamp(1700000000123L);
        message.setStoreTimestamp(1700000000456L);
        message.setBornHost(address(bornHost, 50001));
        message.setStoreHost(address(storeHost, 10911));
        message.setReconsumeTimes(2);
        message.setPreparedTransactionOffset(99);
        message.setBodyCRC(crc(message.getBody()));
        message.setKeys("k1 k2");
        message.setTags("TagA");
        return message;
    }

    private static int crc(byte[] body) {
        java.util.zip.CRC32 crc = new java.util.zip.CRC32();
        crc.update(body);
        return (int) (crc.getValue() & 0x7fffffff);
    }

    private static SocketAddress address(String host, int port) throws Exception {
        return new InetSocketAddress(InetAddress.getByName(host), port);
    }

    private static byte[] messageId(String host, int port, long offset) throws Exception {
        InetAddress ip = InetAddress.getByName(host);
        ByteBuffer buffer = ByteBuffer.allocate(ip.getAddress().length + 12);
        ByteBuffer from = ByteBuffer.allocate(ip.getAddress().length + 4);
        from.put(ip.getAddress()).putInt(port).flip();
        return MessageDecoder.createMessageId(buffer, from, offset).getBytes(StandardCharsets.US_ASCII);
    }

    private static String hashes() {
        Json json = new Json();
        for (String tag : new String[] {"", "TagA", "TagB", "*", "größe", "主题", "𝄞 clef", "Orders#k1"}) {
            json.put(tag, tag.hashCode());
        }
        return json.toString();
    }

    static void decode(String kind, byte[] bytes, Json answer) throws Exception {
        switch (kind) {
            case "command":
                command(bytes, answer);
                break;
            case "message":
                message(MessageDecoder.decode(ByteBuffer.wrap(bytes), true, false), answer);
                break;
            case "batch":
                batch(bytes, answer);
                break;
            case "heartbeat":
                HeartbeatData heartbeat = HeartbeatData.decode(bytes, HeartbeatData.class);
                answer.put("json", RemotingSerializable.toJson(heartbeat, false));
                break;
            case "route":
                answer.put("json", RemotingSerializable.toJson(TopicRouteData.decode(bytes, TopicRouteData.class), false));
                break;
            case "consumer_list":
                answer.put("json", RemotingSerializable.toJson(
                    RemotingSerializable.decode(bytes, GetConsumerListByGroupResponseBody.class), false));
                break;
            case "lock_response":
                answer.put("json", RemotingSerializable.toJson(
                    RemotingSerializable.decode(bytes, LockBatchResponseBody.class), false));
                break;
            case "properties":
                Json json = new Json();
                new TreeMap<>(MessageDecoder.string2messageProperties(new String(bytes, StandardCharsets.UTF_8)))
                    .forEach(json::put);
                answer.raw("properties", json.toString());
                break;
            case "message_id":
                MessageId id = MessageDecoder.decodeMessageId(new String(bytes, StandardCharsets.US_ASCII));
                answer.put("address", host(id.getAddress())).put("offset", id.getOffset());
                break;
            default:
                throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    /** A whole frame, length field included. */
    private static void command(byte[] bytes, Json answer) throws Exception {
        ByteBuffer frame = ByteBuffer.wrap(bytes);
        int length = frame.getInt();
        if (length != frame.remaining()) {
            throw new IllegalArgumentException("length " + length + ", but " + frame.remaining() + " bytes follow");
        }
        RemotingCommand command = RemotingCommand.decode(frame.slice());
        Json fields = new Json();
        if (command.getExtFields() != null) {
            new TreeMap<>(command.getExtFields()).forEach(fields::put);
        }
        answer.put("code", command.getCode()).put("opaque", command.getOpaque()).put("flag", command.getFlag())
            .put("version", command.getVersion()).put("language", String.valueOf(command.getLanguage()))
            .put("remark", command.getRemark()).raw("fields", fields.toString())
            .put("body", command.getBody() == null ? "" : hex(command.getBody()));
    }

    private static void message(MessageExt m, Json answer) {
        Json properties = new Json();
        new TreeMap<>(m.getProperties()).forEach(properties::put);
        answer.put("topic", m.getTopic()).put("body", hex(m.getBody())).put("flag", m.getFlag())
            .put("queue_id", m.getQueueId()).put("queue_offset", m.getQueueOffset())
            .put("commit_log_offset", m.getCommitLogOffset()).put("sys_flag", m.getSysFlag())
            .put("born_timestamp", m.getBornTimestamp()).put("store_timestamp", m.getStoreTimestamp())
            .put("born_host", host(m.getBornHost())).put("store_host", host(m.getStoreHost()))
            .put("reconsume_times", m.getReconsumeTimes()).put("body_crc", m.getBodyCRC())
            .put("prepared_transaction_offset", m.getPreparedTransactionOffset())
            .put("store_size", m.getStoreSize()).put("message_id", m.getMsgId())
            .raw("properties", properties.toString());
    }

    private static void batch(byte[] bytes, Json answer) throws Exception {
        List<Message> messages = MessageDecoder.decodeMessages(ByteBuffer.wrap(bytes));
        List<String> items = new ArrayList<>();
        for (Message m : messages) {
            items.add(new Json().put("body", hex(m.getBody())).put("flag", m.getFlag()).put("keys", m.getKeys())
                .put("tags", m.getTags()).toString());
        }
        answer.raw("messages", items.toString());
    }

    private static String host(SocketAddress address) {
        InetSocketAddress a = (InetSocketAddress) address;
        return a.getAddress().getHostAddress() + "|" + a.getPort();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] all = new byte[buffer.remaining()];
        buffer.get(all);
        return all;
    }

    static String hex(byte[] bytes) {
        StringBuilder b = new StringBuilder();
        for (byte x : bytes) {
            b.append(String.format("%02x", x));
        }
        return b.toString();
    }

    static byte[] unhex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
