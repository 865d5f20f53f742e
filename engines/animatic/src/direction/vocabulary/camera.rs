//! The vocabulary of the camera and the frame in languages other than English.

use super::rows::Meaning::{FadeIn, FadeOut, Move, Pace, Shape};
use super::rows::{VocabularyRow, row};
use crate::direction::kinds::{FrameShape, MoveKind, MovePace};

/// Camera moves, fades and shapes.
pub(super) const CAMERA: &[VocabularyRow] = &[
    row(
        &[Move(MoveKind::PushIn)],
        [
            "",
            "kamera fährt heran|kamera fährt vorwärts|kamerafahrt vorwärts|kamerafahrt nach vorn|kamerafahrt nach vorne|vorwärtsfahrt|heranfahren",
            "travelling hacia adelante|travelling de avance|la cámara avanza|acercamiento",
            "travelling avant|la caméra avance|la caméra s'avance",
            "ドリーイン|カメラが近づく|カメラが寄る|前進",
            "推镜头|镜头推进|推近|镜头向前",
        ],
    ),
    row(
        &[Move(MoveKind::PullOut)],
        [
            "",
            "kamera fährt zurück|kamerafahrt zurück|rückwärtsfahrt",
            "travelling hacia atrás|la cámara retrocede|la cámara se aleja|alejamiento",
            "travelling arrière|la caméra recule|la caméra s'éloigne",
            "ドリーアウト|カメラが引く|カメラが遠ざかる",
            "拉镜头|镜头拉远|拉远|镜头后退",
        ],
    ),
    row(
        &[Move(MoveKind::ZoomIn)],
        [
            "",
            "zoom hinein|zoomt hinein|zoomt heran|heranzoomen|hineinzoomen|reinzoomen",
            "zoom hacia adentro|acercar con zoom",
            "zoom avant",
            "ズームイン",
            "变焦推近|镜头放大",
        ],
    ),
    row(
        &[Move(MoveKind::ZoomOut)],
        [
            "",
            "zoom heraus|zoomt heraus|herauszoomen|rauszoomen|wegzoomen",
            "zoom hacia afuera|alejar con zoom",
            "zoom arrière",
            "ズームアウト",
            "变焦拉远|镜头缩小",
        ],
    ),
    row(
        &[Move(MoveKind::PanLeft)],
        [
            "",
            "schwenk nach links|schwenkt nach links|schwenkt langsam nach links|linksschwenk",
            "paneo a la izquierda|paneo hacia la izquierda|panorámica a la izquierda|panorámica hacia la izquierda",
            "panoramique vers la gauche|panoramique à gauche|panoramique gauche",
            "左にパン|左へパン|パン左",
            "向左摇|左摇|向左平移|镜头左移",
        ],
    ),
    row(
        &[Move(MoveKind::PanRight)],
        [
            "",
            "schwenk nach rechts|schwenkt nach rechts|schwenkt langsam nach rechts|rechtsschwenk",
            "paneo a la derecha|paneo hacia la derecha|panorámica a la derecha|panorámica hacia la derecha",
            "panoramique vers la droite|panoramique à droite|panoramique droite",
            "右にパン|右へパン|パン右",
            "向右摇|右摇|向右平移|镜头右移",
        ],
    ),
    row(
        &[Move(MoveKind::TiltUp)],
        [
            "",
            "schwenk nach oben|schwenkt nach oben",
            "inclinación hacia arriba|paneo hacia arriba",
            "panoramique vers le haut",
            "ティルトアップ|上にパン",
            "上摇|镜头上移|向上摇",
        ],
    ),
    row(
        &[Move(MoveKind::TiltDown)],
        [
            "",
            "schwenk nach unten|schwenkt nach unten",
            "inclinación hacia abajo|paneo hacia abajo",
            "panoramique vers le bas",
            "ティルトダウン|下にパン",
            "下摇|镜头下移|向下摇",
        ],
    ),
    row(
        &[Move(MoveKind::TruckLeft)],
        [
            "",
            "kamerafahrt nach links|fahrt nach links",
            "travelling a la izquierda|travelling hacia la izquierda",
            "travelling vers la gauche|travelling gauche",
            "左に移動|左へ移動",
            "镜头向左移动",
        ],
    ),
    row(
        &[Move(MoveKind::TruckRight)],
        [
            "",
            "kamerafahrt nach rechts|fahrt nach rechts",
            "travelling a la derecha|travelling hacia la derecha|travelling lateral",
            "travelling vers la droite|travelling droite|travelling latéral",
            "右に移動|右へ移動",
            "镜头向右移动|横移",
        ],
    ),
    row(
        &[Move(MoveKind::PedestalUp)],
        [
            "",
            "kamera steigt|kamerafahrt nach oben",
            "la cámara sube|la cámara se eleva",
            "la caméra monte|la caméra s'élève",
            "カメラが上がる|上昇",
            "镜头升起|镜头上升",
        ],
    ),
    row(
        &[Move(MoveKind::PedestalDown)],
        [
            "",
            "kamera sinkt|kamerafahrt nach unten",
            "la cámara baja|la cámara desciende",
            "la caméra descend",
            "カメラが下がる|下降",
            "镜头下降",
        ],
    ),
    row(
        &[Move(MoveKind::OrbitRight)],
        [
            "",
            "kamera umkreist|kamera kreist|kamerafahrt um",
            "la cámara gira alrededor|la cámara rodea",
            "la caméra tourne autour|travelling circulaire",
            "回り込む|カメラが回る",
            "环绕|镜头环绕",
        ],
    ),
    row(
        &[Move(MoveKind::Handheld)],
        [
            "",
            "handkamera",
            "cámara en mano",
            "caméra à l'épaule|caméra portée",
            "手持ち|手持ちカメラ",
            "手持|手持镜头",
        ],
    ),
    row(
        &[Move(MoveKind::Static)],
        [
            "",
            "statische kamera|feste kamera|stehende kamera|ohne kamerabewegung|keine kamerabewegung",
            "cámara fija|cámara estática|plano fijo|plano estático",
            "caméra fixe|plan fixe|plan statique",
            "固定カメラ|カメラ固定|カメラは固定",
            "固定镜头|静止镜头|镜头固定|镜头不动",
        ],
    ),
    row(
        &[Pace(MovePace::Slow)],
        ["", "", "", "", "ゆっくり|徐々に", "缓慢|慢慢|缓缓"],
    ),
    row(
        &[Pace(MovePace::Fast)],
        ["", "", "", "", "素早く|速く", "快速|迅速"],
    ),
    row(
        &[FadeIn],
        [
            "",
            "einblenden|aufblende",
            "fundido de entrada|fundido desde negro",
            "fondu d'ouverture|ouverture en fondu",
            "フェードイン",
            "淡入",
        ],
    ),
    row(
        &[FadeOut],
        [
            "",
            "ausblenden|abblende",
            "fundido a negro|fundido de salida",
            "fondu au noir|fermeture en fondu",
            "フェードアウト",
            "淡出",
        ],
    ),
    row(
        &[Shape(FrameShape::Wide)],
        [
            "",
            "querformat",
            "formato horizontal",
            "format paysage|format horizontal",
            "横長|横型",
            "横屏|横版",
        ],
    ),
    row(
        &[Shape(FrameShape::Vertical)],
        [
            "",
            "hochformat|hochkant",
            "formato vertical|vídeo vertical",
            "format portrait|vidéo verticale",
            "縦長|縦型|縦動画",
            "竖屏|竖版",
        ],
    ),
    row(
        &[Shape(FrameShape::Square)],
        [
            "",
            "quadratisch|quadratisches format",
            "formato cuadrado",
            "format carré",
            "正方形",
            "方形画面",
        ],
    ),
];
