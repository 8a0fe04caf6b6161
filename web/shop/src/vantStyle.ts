/** The styles of the Vant components in use, and no others. */
import 'vant/es/checkbox/style'
import 'vant/es/field/style'
import 'vant/es/pull-refresh/style'
import 'vant/es/toast/style'
